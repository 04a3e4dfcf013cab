// SPDX-License-Identifier: MIT
// When a circuit breaker lets calls through.
#include "cache/cluster/circuit_breaker.h"

#include <gtest/gtest.h>

#include <set>

namespace uopd::cache {
namespace {

class CircuitBreakerTest : public ::testing::Test {
 protected:
  void Fail(int times, int64_t now_us) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(breaker_.Allow(now_us));
      breaker_.Report(false, now_us);
    }
  }
  CircuitBreaker breaker_{{.failures = 3, .pause_us = 100, .max_pause_us = 350}};
};

TEST_F(CircuitBreakerTest, OpensAfterFailuresInARow) {
  Fail(2, 0);
  ASSERT_TRUE(breaker_.Allow(0));
  breaker_.Report(true, 0);
  Fail(2, 0);
  EXPECT_FALSE(breaker_.open());
  Fail(1, 0);
  EXPECT_TRUE(breaker_.open());
  EXPECT_FALSE(breaker_.Allow(99));
}

TEST_F(CircuitBreakerTest, OneCallTriesAfterAPauseThatGrows) {
  Fail(3, 0);
  int64_t now = 0;
  for (const int64_t pause : {100, 200, 350, 350}) {
    EXPECT_FALSE(breaker_.Allow(now + pause - 1));
    now += pause;
    EXPECT_TRUE(breaker_.Allow(now));
    EXPECT_FALSE(breaker_.Allow(now + 10'000)) << "one tries already";
    breaker_.Report(false, now);
  }
  EXPECT_TRUE(breaker_.Allow(now + 350));
  breaker_.Report(true, now + 350);
  EXPECT_FALSE(breaker_.open());
  Fail(3, now);
  EXPECT_TRUE(breaker_.Allow(now + 100)) << "the pause begins anew";
}

// As after late answers: the pauses grow beyond the usual ones, and differ between breakers.
TEST(CircuitBreakerPauseTest, ALongerPauseThatTheCallerNamesIsCutShortAtRandom) {
  constexpr int64_t kMost = 40'000;
  std::set<int64_t> pauses;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CircuitBreaker breaker({.failures = 1, .pause_us = 100, .max_pause_us = 350, .seed = seed});
    int64_t now = 0, last = 0;
    const auto fail = [&](int64_t most_us) {  // returns the pause
      EXPECT_TRUE(breaker.Allow(now));
      breaker.Report(false, now, most_us);
      const int64_t begin = now;
      while (!breaker.Allow(now)) ++now;
      breaker.Report(false, begin,
                     most_us);  // of an older call: changes nothing but that nobody tries
      return now - begin;
    };
    EXPECT_EQ(fail(kMost), 100);
    EXPECT_EQ(fail(kMost), 200);
    for (const int64_t whole : {400, 800, 1600, 3200, 6400, 12'800, 25'600, 40'000, 40'000}) {
      last = fail(kMost);
      EXPECT_GE(last, whole / 2);
      EXPECT_LE(last, whole);
    }
    pauses.insert(last);
    EXPECT_EQ(fail(0), 350) << "it is refused now";
    EXPECT_EQ(fail(100), 350) << "shorter than the usual one";
  }
  EXPECT_GT(pauses.size(), 15u);
  EXPECT_LT(*pauses.begin(), kMost * 6 / 10);
  EXPECT_GT(*pauses.rbegin(), kMost * 9 / 10);
}

TEST(CircuitBreakerPauseTest, AfterLateAnswersOneSuccessDoesNotMakeThePauseShort) {
  CircuitBreaker breaker({.failures = 2, .pause_us = 100, .max_pause_us = 350, .seed = 1});
  int64_t now = 1000;
  const auto fail = [&](int times, int64_t most_us) {  // returns the pause
    for (int i = 0; i < times; ++i) {
      EXPECT_TRUE(breaker.Allow(now));
      breaker.Report(false, now, most_us);
    }
    const int64_t begin = now;
    while (!breaker.Allow(now)) ++now;
    return now - begin;
  };
  const auto succeed = [&] { breaker.Report(true, now); };
  EXPECT_EQ(fail(2, 5000), 100);
  succeed();
  EXPECT_FALSE(breaker.open());
  EXPECT_EQ(fail(2, 5000), 200) << "it goes on";
  succeed();
  now += 200;
  EXPECT_TRUE(breaker.Allow(now));
  succeed();
  EXPECT_GE(fail(2, 5000), 200) << "not longer than the pause";
  succeed();
  now += 401;
  EXPECT_TRUE(breaker.Allow(now));
  succeed();
  EXPECT_EQ(fail(2, 5000), 100) << "all was well for longer than the pause";
  succeed();
  EXPECT_EQ(fail(2, 0), 200);
  succeed();
  EXPECT_EQ(fail(2, 0), 100) << "other failures";
}

TEST_F(CircuitBreakerTest, CallsThatFailTogetherCountAsOnePause) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(breaker_.Allow(0));
  for (int i = 0; i < 10; ++i) breaker_.Report(false, 1);
  EXPECT_FALSE(breaker_.Allow(100));
  EXPECT_TRUE(breaker_.Allow(101));
}

}  // namespace
}  // namespace uopd::cache
