// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/preparation.h"

#include <gtest/gtest.h>

#include <atomic>

#include "tests/support/eventually.h"

namespace uopd::engine {
namespace {

using test::Eventually;

class PreparationTest : public ::testing::Test {
 protected:
  void Begin() {
    caller_ = std::make_shared<Preparation>(request_, timer_, [this](Preparation::Answer answer) {
      answer_ = std::move(answer);
      ++answers_;
    });
    caller_->Watch();
  }
  absl::Status status() const { return answer_.status(); }

  Timer timer_;
  RequestContext request_;
  std::shared_ptr<Preparation> caller_;
  Preparation::Answer answer_ = absl::UnknownError("none yet");
  std::atomic<int> answers_{0};
  const std::shared_ptr<ProgramHandle> program_ = std::make_shared<ProgramHandle>(nullptr);
};

TEST_F(PreparationTest, AThreadWorksForItAndAnswers) {
  Begin();
  EXPECT_TRUE(caller_->Start());
  EXPECT_EQ(answers_, 0);
  caller_->Finish(program_);
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(*answer_, program_);
}

TEST_F(PreparationTest, ThereIsOneAnswer) {
  Begin();
  ASSERT_TRUE(caller_->Start());
  caller_->Finish(absl::InternalError("first"));
  caller_->Finish(program_);
  caller_->Leave(absl::CancelledError("too late"));
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(absl::IsInternal(status()));
}

TEST_F(PreparationTest, WhatOthersSpentIsAddedAndWhatTheyFoundReplaces) {
  Begin();
  request_.timings.Add(Phase::kQueue, 5);
  request_.cache.kernels_memory = 7;
  PhaseTimings timings;
  timings.Add(Phase::kQueue, 2);
  timings.Add(Phase::kCompile, 3);
  const CacheOutcome cache{.schedule = CacheResult::kShared, .kernels_disk = 1};
  ASSERT_TRUE(caller_->Start());
  ASSERT_TRUE(caller_->Wait(nullptr));
  caller_->Finish(program_, timings, &cache);
  EXPECT_EQ(request_.timings[Phase::kQueue], 7);
  EXPECT_EQ(request_.timings[Phase::kCompile], 3);
  EXPECT_EQ(request_.cache.schedule, CacheResult::kShared);
  EXPECT_EQ(request_.cache.kernels_memory, 0u);
}

TEST_F(PreparationTest, WhoLeavesTheQueueIsNotStarted) {
  Begin();
  caller_->Leave(absl::CancelledError("gone"));
  EXPECT_TRUE(absl::IsCancelled(status()));
  EXPECT_FALSE(caller_->Start());
  EXPECT_EQ(answers_, 1);
}

// The thread that works for it answers: until then the request is in use.
TEST_F(PreparationTest, WhoLeavesWhileAThreadWorksIsAnsweredByThatThread) {
  Begin();
  ASSERT_TRUE(caller_->Start());
  caller_->Leave(absl::CancelledError("first reason"));
  caller_->Leave(absl::DeadlineExceededError("second reason"));
  EXPECT_EQ(answers_, 0);
  bool left = false;
  EXPECT_FALSE(caller_->Wait([&] { left = true; }));
  EXPECT_FALSE(left) << "it never waited";
  EXPECT_EQ(answers_, 1);
  EXPECT_EQ(status().message(), "first reason");
}

TEST_F(PreparationTest, AnAnswerIsGivenAlthoughTheCallerLeftWhileItWasMade) {
  Begin();
  ASSERT_TRUE(caller_->Start());
  caller_->Leave(absl::CancelledError("gone"));
  caller_->Finish(program_);
  EXPECT_TRUE(answer_.ok());
}

TEST_F(PreparationTest, WhoLeavesWhileWaitingTellsTheOneItWaitsFor) {
  Begin();
  ASSERT_TRUE(caller_->Start());
  int left = 0;
  ASSERT_TRUE(caller_->Wait([&] { ++left; }));
  caller_->Leave(absl::CancelledError("gone"));
  EXPECT_EQ(left, 1);
  EXPECT_TRUE(absl::IsCancelled(status()));
  caller_->Finish(program_);
  EXPECT_EQ(answers_, 1);
}

TEST_F(PreparationTest, WhoIsAnsweredDoesNotLeave) {
  Begin();
  ASSERT_TRUE(caller_->Start());
  int left = 0;
  ASSERT_TRUE(caller_->Wait([&] { ++left; }));
  caller_->Finish(program_);
  EXPECT_EQ(left, 0);
}

TEST_F(PreparationTest, TheDeadlineEndsIt) {
  request_.deadline = RequestContext::Clock::now() + std::chrono::milliseconds(5);
  Begin();
  EXPECT_TRUE(Eventually([&] { return answers_ == 1; }));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status()));
}

TEST_F(PreparationTest, ItsEndTakesItsDeadlineOffTheTimer) {
  request_.deadline = RequestContext::Clock::now() + std::chrono::hours(1);
  Begin();
  EXPECT_EQ(timer_.size(), 1u);
  ASSERT_TRUE(caller_->Start());
  caller_->Finish(program_);
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(PreparationTest, WithoutADeadlineTheTimerHasNothingToDo) {
  Begin();
  EXPECT_EQ(timer_.size(), 0u);
}

TEST_F(PreparationTest, ACancellationEndsIt) {
  request_.EndWith(std::make_shared<Cancellation>());
  Begin();
  EXPECT_EQ(answers_, 0);
  request_.cancellation->Cancel();
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(absl::IsCancelled(status()));
}

TEST_F(PreparationTest, ARequestThatIsCancelledAlreadyEndsAtOnce) {
  request_.EndWith(std::make_shared<Cancellation>());
  request_.cancellation->Cancel();
  Begin();
  EXPECT_TRUE(absl::IsCancelled(status()));
}

// gRPC cancels what is late: the client shall read that it was late.
TEST_F(PreparationTest, ACancellationAfterTheDeadlineIsTheDeadline) {
  request_.EndWith(std::make_shared<Cancellation>());
  request_.cancellation->Cancel();
  request_.deadline = RequestContext::Clock::now();
  Begin();
  EXPECT_TRUE(Eventually([&] { return answers_ == 1; }));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status()));
}

TEST_F(PreparationTest, ACancellationAfterTheAnswerIsNoSecondOne) {
  request_.EndWith(std::make_shared<Cancellation>());
  Begin();
  ASSERT_TRUE(caller_->Start());
  caller_->Finish(program_);
  request_.cancellation->Cancel();
  EXPECT_EQ(answers_, 1);
  EXPECT_TRUE(answer_.ok());
}

}  // namespace
}  // namespace uopd::engine
