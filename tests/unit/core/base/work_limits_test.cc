// SPDX-License-Identifier: MIT
#include "core/base/work_limits.h"

#include <gtest/gtest.h>

namespace uopd {
namespace {

using Clock = WorkLimits::Clock;

TEST(WorkLimitsTest, WithoutLimitsWorkGoesOn) {
  const WorkLimits limits;
  EXPECT_TRUE(limits.Check().ok());
  EXPECT_FALSE(limits.IsCancelled());
  EXPECT_GT(limits.NextCheck(), Clock::now() + std::chrono::minutes(1));
}

TEST(WorkLimitsTest, TheDeadlineEndsIt) {
  EXPECT_TRUE(WorkLimits{.deadline = Clock::now() + std::chrono::hours(1)}.Check().ok());
  const auto now = Clock::now();
  const WorkLimits over{.deadline = now};
  EXPECT_TRUE(absl::IsDeadlineExceeded(over.Check()));
  EXPECT_FALSE(over.IsCancelled());
  EXPECT_EQ(over.NextCheck(), now);
}

TEST(WorkLimitsTest, ACancellationEndsItBeforeTheDeadlineDoes) {
  bool gone = false;
  const WorkLimits limits{.deadline = Clock::now(), .cancelled = [&] { return gone; }};
  EXPECT_TRUE(absl::IsDeadlineExceeded(limits.Check()));
  gone = true;
  EXPECT_TRUE(absl::IsCancelled(limits.Check()));
}

// Who waits asks soon whether the work is cancelled.
TEST(WorkLimitsTest, WhoMayBeCancelledLooksOften) {
  const WorkLimits limits{.cancelled = [] { return false; }};
  const auto next = limits.NextCheck();
  EXPECT_LE(next, Clock::now() + WorkLimits::kPoll);
}

TEST(WorkLimitsTest, AnotherReasonToEnd) {
  bool mine = false, another = false;
  for (const bool has_mine : {false, true}) {
    WorkLimits first{.deadline = Clock::now() + std::chrono::hours(1)};
    if (has_mine) first.cancelled = [&] { return mine; };
    const WorkLimits both = first.Or([&] { return another; });
    EXPECT_EQ(both.deadline, first.deadline);
    EXPECT_FALSE(both.IsCancelled());
    mine = true;
    EXPECT_EQ(both.IsCancelled(), has_mine);
    mine = false;
    another = true;
    EXPECT_TRUE(both.IsCancelled());
    EXPECT_FALSE(first.IsCancelled());
    another = false;
  }
}

}  // namespace
}  // namespace uopd
