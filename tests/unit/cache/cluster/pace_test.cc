// SPDX-License-Identifier: MIT
// What each daemon may ask for, and what all of them ask for together.
#include "cache/cluster/pace.h"

#include <gtest/gtest.h>

#include <limits>

#include "cache/cluster/guarded_server.h"
#include "tests/unit/cache/cluster/fake_server.h"

namespace uopd::cache {
namespace {

using std::chrono::milliseconds;

TEST(PaceTest, ASmallClusterIsNotBound) {
  for (const int64_t daemons : {0, 1, 3, 1000, 2000}) {
    const Pace pace{daemons};
    EXPECT_EQ(pace.Weight(), 1) << daemons;
    EXPECT_TRUE(pace.WaitsAtServer()) << daemons;
    EXPECT_EQ(pace.Gather(milliseconds(1000)), milliseconds(1000)) << daemons;
    EXPECT_EQ(pace.RefillUs(), 0) << daemons;
    EXPECT_LE(pace.MostLatePauseUs(), BreakerOptions().max_pause_us) << daemons;
  }
}

TEST(PaceTest, AllTogetherAskForAsMuchHoweverManyTheyAre) {
  for (const int64_t daemons : {2001, 4001, 10'000, 33'333, 100'000, 500'000}) {
    const Pace pace{daemons};
    EXPECT_LE(daemons, pace.Weight() * Pace::kSmall) << daemons;
    EXPECT_GT(daemons, (pace.Weight() - 1) * Pace::kSmall) << daemons;
    const double gather_s = 1e-3 * static_cast<double>(pace.Gather(milliseconds(1000)).count());
    EXPECT_LE(static_cast<double>(daemons) / gather_s, 1.001 * Pace::kQuestionsASecond) << daemons;
  }
  EXPECT_FALSE(Pace{2001}.WaitsAtServer());
  EXPECT_EQ(Pace{2001}.RefillUs(), 13'500);
  EXPECT_EQ(Pace{10'000}.RefillUs(), 108'000'000);
  EXPECT_EQ(Pace{102'000}.RefillUs(), 200'000'000);
  EXPECT_EQ(Pace{100'000}.MostLatePauseUs(), 50'000'000);
  EXPECT_EQ(Pace{1'000'000}.MostLatePauseUs(), Pace::kMostLatePauseUs);
}

TEST(PaceTest, ASmallerNumberOfDaemonsIsBelievedAfterAMinute) {
  const auto state = std::make_shared<FakeServerState>();
  int64_t now = 1'000'000'000;
  GuardedServer server(
      std::make_unique<FakeServer>(state), {}, std::chrono::seconds(1), [&now] { return now; },
      SteadyNow, nullptr);
  const auto told = [&](int64_t daemons) {
    state->daemons = daemons;
    EXPECT_TRUE(server.AskKeysAge(SteadyNow()).ok());
    return server.pace().daemons;
  };
  EXPECT_FALSE(server.told_daemons());
  EXPECT_EQ(server.pace().daemons, 0);
  EXPECT_EQ(told(5000), 5000);
  EXPECT_TRUE(server.told_daemons());
  EXPECT_EQ(told(7000), 7000);
  now += 59'000'000;
  EXPECT_EQ(told(10), 7000) << "as after the server lost its keys";
  now += 1'000'000;
  EXPECT_EQ(told(6000), 6000);
  EXPECT_EQ(told(6001), 6001);
}

TEST(GuardedServerTest, TheLastFailureIsKeptForOperators) {
  const auto state = std::make_shared<FakeServerState>();
  int64_t now = 7'000'000;
  GuardedServer server(
      std::make_unique<FakeServer>(state), {}, std::chrono::seconds(1), [&now] { return now; },
      SteadyNow, nullptr);
  const auto deadline = SteadyNow() + std::chrono::minutes(1);
  EXPECT_TRUE(server.Get(Digest(), deadline).ok());
  EXPECT_TRUE(server.last_failure().status.ok());
  state->SetAway(true);
  EXPECT_FALSE(server.Get(Digest(), deadline).ok());
  state->SetAway(false);
  now += 5'000'000;
  EXPECT_TRUE(server.Get(Digest(), deadline).ok());
  EXPECT_EQ(server.last_failure().status, absl::UnavailableError("away"));
  EXPECT_EQ(server.last_failure().at_us, 7'000'000);
}

// What is at the server's place may be no server of ours.
TEST(PaceTest, ALyingServerSlowsADaemonOnlySoMuch) {
  const auto state = std::make_shared<FakeServerState>();
  GuardedServer server(
      std::make_unique<FakeServer>(state), {}, std::chrono::seconds(1),
      [] { return 1'000'000'000; }, SteadyNow, nullptr);
  state->daemons = -5;
  EXPECT_TRUE(server.AskKeysAge(SteadyNow()).ok());
  EXPECT_EQ(server.pace().daemons, 0);
  state->daemons = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(server.AskKeysAge(SteadyNow()).ok());
  const Pace pace = server.pace();
  EXPECT_EQ(pace.daemons, Pace::kMostDaemons);
  EXPECT_EQ(pace.Weight(), Pace::kMostWeight);
  EXPECT_LE(pace.Gather(milliseconds(1000)), milliseconds(52'000));
  EXPECT_LE(pace.RefillUs(), 620'000'000);
  EXPECT_EQ(pace.MostLatePauseUs(), Pace::kMostLatePauseUs);
}

}  // namespace
}  // namespace uopd::cache
