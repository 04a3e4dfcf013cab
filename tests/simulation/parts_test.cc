// SPDX-License-Identifier: MIT
// The parts of the simulation, each against what it must be.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tests/simulation/event_queue.h"
#include "tests/simulation/histogram.h"
#include "tests/simulation/random.h"
#include "tests/simulation/server/network.h"
#include "tests/simulation/server/server_load.h"

namespace uopd::sim {
namespace {

class Recorder final : public Actor {
 public:
  explicit Recorder(SimClock& clock) : clock_(clock) {}
  void Wake(uint32_t what, uint64_t arg) override {
    seen.push_back({clock_.now_us, what});
    clock_.now_us += static_cast<int64_t>(arg);  // as a call that takes a time
  }
  std::vector<std::pair<int64_t, uint32_t>> seen;

 private:
  SimClock& clock_;
};

TEST(EventQueueTest, EventsHappenInTheOrderOfTheirTimesAndOfTheirAddition) {
  SimClock clock;
  EventQueue queue(clock);
  Recorder who(clock);
  queue.At(30, who, 1, 500);
  queue.At(10, who, 2);
  queue.At(30, who, 3);
  queue.At(900, who, 4);
  while (queue.Step(100)) {
  }
  using Seen = std::vector<std::pair<int64_t, uint32_t>>;
  EXPECT_EQ(who.seen, (Seen{{10, 2}, {30, 1}, {30, 3}}));
  EXPECT_EQ(clock.now_us, 100);
  queue.At(5, who, 5);  // the past is now
  while (queue.Step(1000)) {
  }
  EXPECT_EQ(who.seen.back(), (std::pair<int64_t, uint32_t>{900, 4}));
  EXPECT_EQ(who.seen[3], (std::pair<int64_t, uint32_t>{100, 5}));
}

// The shares of the first ranks are those of the definition.
TEST(ZipfTest, RanksHaveTheirShares) {
  for (const double s : {0.7, 1.0, 1.1, 2.0}) {
    constexpr int kNames = 1000, kDraws = 200'000;
    const Zipf zipf(kNames, s);
    Random random(7);
    std::map<uint64_t, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[zipf.Draw(random)];
    EXPECT_GE(counts.begin()->first, 1u);
    EXPECT_LE(counts.rbegin()->first, uint64_t{kNames});
    double sum = 0;
    for (int k = 1; k <= kNames; ++k) sum += std::pow(k, -s);
    for (const int k : {1, 2, 3, 10, 100, 1000}) {
      const double expected = kDraws * std::pow(k, -s) / sum;
      EXPECT_NEAR(counts[static_cast<uint64_t>(k)], expected, 5 * std::sqrt(expected) + 1)
          << s << " " << k;
    }
  }
  Random random(1);
  EXPECT_EQ(Zipf(1, 1.1).Draw(random), 1u);
}

TEST(HistogramTest, QuantilesAreRightToASixteenth) {
  Histogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  for (int64_t i = 1; i <= 100'000; ++i) histogram.Add(i);
  for (const double q : {0.01, 0.5, 0.99, 0.999})
    EXPECT_NEAR(static_cast<double>(histogram.Quantile(q)), q * 1e5, q * 1e5 / 16) << q;
  EXPECT_EQ(histogram.greatest(), 100'000);
  histogram.Add(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(histogram.total(), 100'001);
}

TEST(NetworkTest, MessagesTakeTheirTimeAndSomeAreSentAgain) {
  Network network({.least_us = 80, .rest_us = 40, .loss = 0.01, .again_us = 200 * kMs}, 3);
  double sum = 0;
  int again = 0;
  for (int i = 0; i < 100'000; ++i) {
    const int64_t delay = network.Delay();
    EXPECT_GE(delay, 80);
    if (delay >= 200 * kMs)
      ++again;
    else
      sum += static_cast<double>(delay);
  }
  EXPECT_NEAR(again, 1000, 150);
  EXPECT_NEAR(sum / (100'000 - again), 119.5, 1);
}

// Against a queue with one end, whose customers come in order.
TEST(ServerLoadTest, CommandsWaitForThoseBefore) {
  Random random(5);
  for (const double load : {0.3, 0.9, 1.5}) {
    ServerLoad server;
    int64_t at = 0, free = 0, busy = 0;
    for (int i = 0; i < 20'000; ++i) {
      at += static_cast<int64_t>(random.Exponential(20));
      const auto cost = static_cast<int64_t>(1 + random.Below(static_cast<uint64_t>(40 * load)));
      server.Advance(at);
      const std::optional<int64_t> done = server.Serve(at, cost);
      free = std::max(free, at) + cost;
      busy += cost;
      ASSERT_TRUE(done.has_value());
      ASSERT_GE(*done, at + cost);
      // Room that an earlier wait left within the last step may be taken.
      ASSERT_NEAR(static_cast<double>(*done), static_cast<double>(free),
                  2 * ServerLoad::kStepUs + 0.02 * static_cast<double>(free - at))
          << load << " " << i;
    }
    EXPECT_EQ(server.busy_us(), busy);
  }
}

TEST(ServerLoadTest, CommandsOutOfOrderTakeTheRoomThatIsLeft) {
  ServerLoad server;
  EXPECT_EQ(server.Serve(5000, 10), 5010);
  EXPECT_EQ(server.Serve(1000, 10), 1010) << "earlier, though told later";
  EXPECT_EQ(server.Serve(1000, 250), 1260);
  EXPECT_EQ(server.Serve(1000, 10), 1270);
  EXPECT_FALSE(server.Serve(0, ServerLoad::kHorizonUs).has_value());
  server.Clear();
  EXPECT_EQ(server.Serve(1000, 10), 1010);
}

}  // namespace
}  // namespace uopd::sim
