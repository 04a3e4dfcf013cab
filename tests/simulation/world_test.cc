// SPDX-License-Identifier: MIT
// Small clusters for some minutes: what must hold, and that mistakes would be noticed.
#include "tests/simulation/world.h"

#include <gtest/gtest.h>

#include "tests/simulation/report.h"
#include "tests/simulation/seal.h"

namespace uopd::sim {
namespace {

WorldOptions SmallWorld() {
  const auto seal = MakeSealKey();
  EXPECT_TRUE(seal.ok()) << seal.status();
  WorldOptions options{
      .daemons = 200, .environments = 2, .duration_us = 5 * kMinute, .drain_us = kMinute};
  options.daemon.cluster.sign = *seal;
  options.daemon.cluster.trusted = {*seal};
  options.daemon.names = 3000;
  options.daemon.requests_per_hour = 60;
  options.daemon.search_s = 8;
  options.crashes_per_hour = 0.5;
  options.cuts_per_hour = 0;
  options.server_restarts = 0;
  return options;
}

TEST(WorldTest, EachKernelIsTunedOnceWhileDaemonsCrash) {
  World world(SmallWorld());
  world.Run();
  const Stats& stats = world.stats();
  EXPECT_GT(stats.requests, 800);
  EXPECT_GT(stats.tunings, 300);
  EXPECT_GT(stats.crashes, 4);
  EXPECT_EQ(stats.tuned_again, 0) << Details(world);
  EXPECT_EQ(stats.compiled_again, 0) << Details(world);
  EXPECT_EQ(world.Lost(), 0) << Details(world);
  EXPECT_GT(stats.arrival.total(), 50 * stats.tunings)
      << "half of the daemons follow each environment";
  EXPECT_LT(stats.timeouts, 50) << "messages that were lost";
}

TEST(WorldTest, NothingIsLostWhenTheServerLosesItsKeysAndDaemonsAreCutOff) {
  WorldOptions options = SmallWorld();
  options.server_restarts = 1;
  options.cuts_per_hour = 0.5;
  World world(options);
  world.Run();
  const Stats& stats = world.stats();
  EXPECT_GT(stats.cuts, 3);
  EXPECT_GT(stats.tunings, 300);
  EXPECT_GT(stats.refused, 100);
  EXPECT_EQ(world.Lost(), 0) << Details(world);
  EXPECT_LT(1000 * stats.tuned_again, stats.tunings) << Details(world);
}

TEST(WorldTest, EveryDaemonKnowsOfTheKernelsThatCrash) {
  WorldOptions options = SmallWorld();
  options.daemon.bad_share = 0.05;
  options.crashes_per_hour = 0;
  World world(options);
  world.Run();
  const Stats& stats = world.stats();
  EXPECT_GT(stats.notices, 10);
  EXPECT_EQ(stats.notice.total(), 199 * stats.notices) << Details(world);
  EXPECT_LT(stats.notice.greatest(), 4 * kSecond);
}

// The number of daemons is known, so no listener waits at the server and nobody takes all that is
// announced.
TEST(WorldTest, AServerWithManyDaemonsHasLittleToDoForListeners) {
  WorldOptions options = SmallWorld();
  options.daemons = 4000;
  options.duration_us = kMinute;
  options.ramp_us = 10 * kSecond;
  options.daemon.requests_per_hour = 20;
  World world(options);
  world.Run();
  const Stats& stats = world.stats();
  const auto of = [&](Command command) { return stats.commands[static_cast<size_t>(command)]; };
  EXPECT_GT(stats.tunings, 100);
  EXPECT_EQ(stats.tuned_again, 0) << Details(world);
  EXPECT_EQ(world.Lost(), 0) << Details(world);
  EXPECT_LT(of(Command::kWake), 20 * 4000) << Details(world);
  EXPECT_LT(stats.timeouts, 200) << Details(world);
  EXPECT_LT(*std::ranges::max_element(stats.busy_us), kMinute / 2) << Details(world);
}

TEST(WorldTest, LeasesThatAreGrantedTwiceAreNoticed) {
  WorldOptions options = SmallWorld();
  options.tier.server.plant = Plant::kGrantsAlways;
  World world(options);
  world.Run();
  EXPECT_GT(100 * world.stats().tuned_again, world.stats().tunings) << Details(world);
}

TEST(WorldTest, LeasesThatEndTooEarlyAreNoticed) {
  WorldOptions options = SmallWorld();
  options.daemon.search_s = 20;  // longer than a lease
  options.tier.server.plant = Plant::kRenewsNothing;
  World world(options);
  world.Run();
  EXPECT_GT(100 * world.stats().tuned_again, world.stats().tunings) << Details(world);
  EXPECT_GT(world.stats().why_tuned[static_cast<size_t>(Again::kTwoAtOnce)], 0) << Details(world);
}

TEST(WorldTest, TheSeedDecidesEverything) {
  WorldOptions options = SmallWorld();
  options.daemons = 50;
  options.duration_us = kMinute;
  World one(options), two(options);
  one.Run();
  two.Run();
  EXPECT_EQ(Details(one), Details(two));
  options.seed = 2;
  World other(options);
  other.Run();
  EXPECT_NE(Details(one), Details(other));
}

}  // namespace
}  // namespace uopd::sim
