// SPDX-License-Identifier: MIT
#include "server/net/offenders.h"

#include <gtest/gtest.h>

namespace uopd::net {
namespace {

TEST(Offenders, GetFewConnectionsForAWhile) {
  Offenders offenders;
  Offenders::Clock::time_point now{std::chrono::hours(1)};
  const auto admitted = [&](const char* peer) {
    int out = 0;
    for (int i = 0; i < 100; ++i) out += offenders.Admits(peer, now) ? 1 : 0;
    return out;
  };
  EXPECT_EQ(admitted("bad"), 100);
  offenders.Add("bad", now);
  EXPECT_EQ(admitted("good"), 100);
  EXPECT_EQ(admitted("bad"), 2);
  now += std::chrono::seconds(1);
  EXPECT_EQ(admitted("bad"), 2);
  offenders.Add("bad", now);
  EXPECT_EQ(admitted("bad"), 0) << "a second offence gives no new connections";
  now += std::chrono::seconds(8);
  EXPECT_EQ(admitted("bad"), 2);
  now += std::chrono::seconds(3);
  EXPECT_EQ(admitted("bad"), 100);
}

TEST(Offenders, ManyOfThemCostLittle) {
  Offenders offenders;
  Offenders::Clock::time_point now{std::chrono::hours(1)};
  for (int i = 0; i < 100'000; ++i) offenders.Add("bad " + std::to_string(i), now);
  EXPECT_EQ(offenders.size(), Offenders::kMost);
  now += std::chrono::seconds(11);
  offenders.Add("bad", now);
  EXPECT_EQ(offenders.size(), 1U);
}

}  // namespace
}  // namespace uopd::net
