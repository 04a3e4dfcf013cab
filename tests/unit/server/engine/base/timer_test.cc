// SPDX-License-Identifier: MIT
#include "server/engine/base/timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <vector>

namespace uopd::engine {
namespace {

using std::chrono::milliseconds;

TEST(TimerTest, CallsInTheOrderOfTime) {
  Timer timer;
  std::vector<int> seen;  // of the timer's thread
  std::latch done(1);
  const auto now = Timer::Clock::now();
  timer.At(now + milliseconds(20), [&] { seen.push_back(3), done.count_down(); });
  timer.At(now + milliseconds(10), [&] { seen.push_back(2); });
  timer.At(now - milliseconds(10), [&] { seen.push_back(1); });
  done.wait();
  EXPECT_THAT(seen, testing::ElementsAre(1, 2, 3));
}

TEST(TimerTest, WhatIsDroppedIsNotCalled) {
  Timer timer;
  const auto later = Timer::Clock::now() + std::chrono::hours(1);
  const auto id = timer.At(later, [] { FAIL(); });
  timer.At(Timer::Clock::time_point::max(), [] { FAIL(); });
  EXPECT_EQ(timer.size(), 2U);
  timer.Drop(id);
  timer.Drop(id);
  EXPECT_EQ(timer.size(), 1U);
}

}  // namespace
}  // namespace uopd::engine
