// SPDX-License-Identifier: MIT
#include "server/engine/content/content_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/text.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ::testing::HasSubstr;
using UsePtr = std::shared_ptr<const ContentUse>;

constexpr int64_t kContentBytes = 1024;

class ContentMemoryTest : public ::testing::Test {
 protected:
  static ContentHasher::Names Names(int i) {
    return {HashBytes(Cat("content ", i)), HashBytes(Cat("tag ", i))};
  }
  absl::StatusOr<UsePtr> Add(int i) {
    auto buffer = device_->device().Allocate(kContentBytes, devices::MemoryKind::kDevice);
    UOPD_TRY(buffer.status());
    return memory_.Add(Names(i), *device_, *std::move(buffer));
  }
  bool Has(int i) { return memory_.TagOf(Names(i).sha256, kContentBytes).has_value(); }

  DeviceSet devices_{NullRegistry()};
  DeviceState* const device_ = *devices_.Get("");
  Quota total_{"limits.total_bytes", 100 * ChargedBytes(kContentBytes)};
  ContentMemory memory_{3 * ChargedBytes(kContentBytes), total_};
};

TEST_F(ContentMemoryTest, AContentIsThereOnceForAll) {
  const auto first = Add(1);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = Add(1);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ((*first)->buffer(), (*again)->buffer());
  EXPECT_EQ(memory_.Find(Names(1).sha256, *device_)->buffer(), (*first)->buffer());
  EXPECT_EQ(total_.used(), ChargedBytes(kContentBytes));
  EXPECT_EQ(memory_.TagOf(Names(1).sha256, kContentBytes), Names(1).tag);
  EXPECT_EQ(memory_.TagOf(Names(1).sha256, kContentBytes + 1), std::nullopt);
  EXPECT_EQ(memory_.Find(Names(2).sha256, *device_), nullptr);
}

TEST_F(ContentMemoryTest, TheLeastRecentlyUsedGoFirstAndThoseInUseStay) {
  UsePtr one = *Add(1);
  UsePtr two = *Add(2);
  ASSERT_TRUE(Add(3).ok());
  two = nullptr;  // was used after 3
  ASSERT_TRUE(Add(4).ok());
  EXPECT_TRUE(Has(1));
  EXPECT_TRUE(Has(2));
  EXPECT_FALSE(Has(3));
  UsePtr again = memory_.Find(Names(2).sha256, *device_);
  const UsePtr four = memory_.Find(Names(4).sha256, *device_);
  const auto refused = Add(5);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(refused.status().ToString(), HasSubstr("content.memory_bytes"));
  EXPECT_TRUE(Has(1) && Has(2) && Has(4));
  EXPECT_EQ(total_.used(), 3 * ChargedBytes(kContentBytes));
  one = nullptr;
  EXPECT_TRUE(Add(5).ok());
  EXPECT_FALSE(Has(1));
  EXPECT_EQ(memory_.usage().used_bytes, 2 * ChargedBytes(kContentBytes));
  EXPECT_EQ(memory_.usage().contents, 3u);
}

TEST_F(ContentMemoryTest, WhatNobodyUsesGivesWayToOtherMemory) {
  total_.set_reclaim([this] { return memory_.Drop(); });
  UsePtr one = *Add(1);
  ASSERT_TRUE(Add(2).ok());
  const int64_t free = total_.limit() - total_.used();
  auto others = Charge::Take(total_, free, ByteClass::kBuffers);
  ASSERT_TRUE(others.ok());
  EXPECT_TRUE(Has(2));
  // More than can be given back: nothing is lost for it.
  EXPECT_FALSE(Charge::Take(total_, ChargedBytes(kContentBytes) + 1, ByteClass::kBuffers).ok());
  EXPECT_TRUE(Has(2));
  auto more = Charge::Take(total_, ChargedBytes(kContentBytes), ByteClass::kBuffers);
  EXPECT_TRUE(more.ok()) << more.status();
  EXPECT_TRUE(Has(1));
  EXPECT_FALSE(Has(2));
  EXPECT_FALSE(memory_.Drop());
  one = nullptr;
  EXPECT_TRUE(Charge::Take(total_, ChargedBytes(kContentBytes), ByteClass::kBuffers).ok());
  EXPECT_FALSE(Has(1));
}

TEST_F(ContentMemoryTest, WhatRunsKeepCountsAsMemoryThatCanBeFreed) {
  ASSERT_TRUE(Add(1).ok());
  UsePtr kept = memory_.Find(Names(1).sha256, *device_, ContentUse::kKept);
  EXPECT_FALSE(memory_.Drop());  // it is in use
  total_.set_reclaim([&] {
    kept = nullptr;
    return memory_.Drop();
  });
  const int64_t all = total_.limit();
  EXPECT_TRUE(Charge::Take(total_, all, ByteClass::kBuffers).ok());
  EXPECT_FALSE(Has(1));
  // A buffer of a session does not go, whatever else uses the content.
  ASSERT_TRUE(Add(2).ok());
  const UsePtr buffer = memory_.Find(Names(2).sha256, *device_);
  kept = memory_.Find(Names(2).sha256, *device_, ContentUse::kKept);
  EXPECT_FALSE(Charge::Take(total_, all, ByteClass::kBuffers).ok());
  EXPECT_NE(kept, nullptr);  // nobody was asked for what cannot help
  EXPECT_TRUE(Has(2));
}

TEST_F(ContentMemoryTest, ALargerContentThanTheLimitEvictsNothing) {
  ASSERT_TRUE(Add(1).ok());
  auto large = device_->device().Allocate(4 * kContentBytes, devices::MemoryKind::kDevice);
  ASSERT_TRUE(large.ok());
  EXPECT_TRUE(absl::IsResourceExhausted(memory_.Add(Names(2), *device_, *large).status()));
  EXPECT_TRUE(Has(1));
  memory_.set_max_bytes(5 * ChargedBytes(kContentBytes));
  EXPECT_TRUE(memory_.Add(Names(2), *device_, *large).ok());
}

}  // namespace
}  // namespace uopd::engine
