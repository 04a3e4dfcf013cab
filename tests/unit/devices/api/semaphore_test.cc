// SPDX-License-Identifier: MIT
#include "devices/api/semaphore.h"

#include <gtest/gtest.h>

#include <thread>

namespace uopd::devices {
namespace {

using std::chrono::steady_clock;

class SemaphoreTest : public ::testing::Test {
 protected:
  // Keeps what a waiter was told.
  Semaphore::Reached Note() {
    return [this](const absl::Status& reached) { told_.push_back(reached.code()); };
  }
  std::shared_ptr<Semaphore> semaphore_ = std::make_shared<Semaphore>();
  std::vector<absl::StatusCode> told_;
};

TEST_F(SemaphoreTest, GrowsAndTellsWhoeverWaits) {
  EXPECT_FALSE(semaphore_->ReachedOr(2, Note()));
  EXPECT_FALSE(semaphore_->ReachedOr(5, Note()));
  semaphore_->Signal(1);
  EXPECT_TRUE(told_.empty());
  semaphore_->Signal(3);
  EXPECT_EQ(told_, std::vector{absl::StatusCode::kOk});
  semaphore_->Signal(2);
  EXPECT_EQ(semaphore_->value(), 3u);
  EXPECT_TRUE(semaphore_->ReachedOr(3, Note()));  // is not called
  semaphore_ = nullptr;
  EXPECT_EQ(told_, (std::vector{absl::StatusCode::kOk, absl::StatusCode::kAborted}));
}

TEST_F(SemaphoreTest, AFailureIsForGoodAndTheValuesBeforeItCount) {
  semaphore_->Signal(2);
  EXPECT_FALSE(semaphore_->ReachedOr(3, Note()));
  semaphore_->Fail(absl::DataLossError("first"));
  semaphore_->Fail(absl::InternalError("second"));
  semaphore_->Signal(9);
  EXPECT_EQ(semaphore_->value(), 2u);
  EXPECT_EQ(semaphore_->failure().message(), "first");
  EXPECT_FALSE(semaphore_->ReachedOr(3, Note()));  // is called at once
  EXPECT_TRUE(semaphore_->ReachedOr(2, Note()));
  EXPECT_EQ(told_, (std::vector{absl::StatusCode::kDataLoss, absl::StatusCode::kDataLoss}));
  EXPECT_TRUE(semaphore_->Wait(2, steady_clock::now()).ok());
  EXPECT_TRUE(absl::IsDataLoss(semaphore_->Wait(3, steady_clock::now())));
}

TEST_F(SemaphoreTest, TheHostWaits) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(semaphore_->Wait(1, steady_clock::now())));
  const auto later = steady_clock::now() + std::chrono::seconds(60);
  {
    std::jthread signals([&] { semaphore_->Signal(1); });
    EXPECT_TRUE(semaphore_->Wait(1, later).ok());
  }
  std::jthread fails([&] { semaphore_->Fail(absl::UnavailableError("lost")); });
  EXPECT_TRUE(absl::IsUnavailable(semaphore_->Wait(2, later)));
}

TEST_F(SemaphoreTest, AWaiterMayUseTheSemaphore) {
  EXPECT_FALSE(semaphore_->ReachedOr(1, [this](const absl::Status&) {
    EXPECT_FALSE(semaphore_->ReachedOr(2, Note()));
    semaphore_->Signal(2);
  }));
  semaphore_->Signal(1);
  EXPECT_EQ(told_, std::vector{absl::StatusCode::kOk});
}

}  // namespace
}  // namespace uopd::devices
