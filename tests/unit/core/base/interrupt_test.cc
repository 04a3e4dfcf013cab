// SPDX-License-Identifier: MIT
#include "core/base/interrupt.h"

#include <gtest/gtest.h>

#include <ctime>

namespace uopd {
namespace {

using Clock = Interrupt::Clock;
using std::chrono::microseconds;

// Work of about this length that is not idle.
void Spin(microseconds length) {
  const auto end = Clock::now() + length;
  while (Clock::now() < end) {
  }
}

TEST(InterruptTest, StaysQuietUntilCancelledAndRaisedAfterwards) {
  bool cancelled = false;
  Interrupt interrupt({.cancelled = [&] { return cancelled; }});
  interrupt.LookAtEveryPoll();
  EXPECT_FALSE(interrupt.Poll());
  EXPECT_TRUE(interrupt.Check().ok());
  cancelled = true;
  EXPECT_TRUE(interrupt.Poll());
  EXPECT_TRUE(absl::IsCancelled(interrupt.status()));
  cancelled = false;  // it stays what it is
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(interrupt.Poll());
  EXPECT_TRUE(absl::IsCancelled(interrupt.Check()));
}

TEST(InterruptTest, RaisesAtTheDeadline) {
  Interrupt past({.deadline = Clock::now()});
  EXPECT_TRUE(absl::IsDeadlineExceeded(past.Check()));
  Interrupt later({.deadline = Clock::now() + std::chrono::hours(1)});
  EXPECT_TRUE(later.Check().ok());
}

TEST(InterruptTest, CancellationIsNamedBeforeTheDeadline) {
  Interrupt both({.deadline = Clock::now(), .cancelled = [] { return true; }});
  EXPECT_TRUE(absl::IsCancelled(both.Check()));
}

TEST(InterruptTest, LooksRarelyWhereTurnsAreQuick) {
  int looks = 0;
  Interrupt interrupt({.cancelled = [&] { return ++looks, false; }});
  for (int i = 0; i < 1'000'000; ++i) ASSERT_FALSE(interrupt.Poll());
  EXPECT_LT(looks, 40'000);
  EXPECT_GT(looks, 1'000);
}

// The interval that quick turns had must not hold for slow ones.
TEST(InterruptTest, LooksOftenWhereTurnsAreSlow) {
  int looks = 0;
  Interrupt interrupt({.cancelled = [&] { return ++looks, false; }});
  for (int i = 0; i < 100'000; ++i) interrupt.Poll();
  for (int i = 0; i < 600; ++i) Spin(microseconds(50)), interrupt.Poll();
  looks = 0;
  for (int i = 0; i < 100; ++i) Spin(microseconds(300)), interrupt.Poll();
  EXPECT_GE(looks, 50);
}

TEST(InterruptTest, StepsCountAsPolls) {
  int looks = 0;
  Interrupt interrupt({.cancelled = [&] { return ++looks, false; }});
  for (int i = 0; i < 100; ++i) interrupt.Poll(100'000);
  EXPECT_EQ(looks, 100);
}

TEST(InterruptTest, OnlyTheTwoCodesAreAboutTheCaller) {
  EXPECT_TRUE(IsAboutCaller(CancelledByCaller()));
  EXPECT_TRUE(IsAboutCaller(DeadlinePassed()));
  EXPECT_FALSE(IsAboutCaller(absl::OkStatus()));
  EXPECT_FALSE(IsAboutCaller(absl::InternalError("x")));
}

}  // namespace
}  // namespace uopd
