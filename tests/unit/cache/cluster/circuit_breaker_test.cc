// SPDX-License-Identifier: MIT
// When a circuit breaker lets calls through.
#include "cache/cluster/circuit_breaker.h"

#include <gtest/gtest.h>

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

TEST_F(CircuitBreakerTest, CallsThatFailTogetherCountAsOnePause) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(breaker_.Allow(0));
  for (int i = 0; i < 10; ++i) breaker_.Report(false, 1);
  EXPECT_FALSE(breaker_.Allow(100));
  EXPECT_TRUE(breaker_.Allow(101));
}

}  // namespace
}  // namespace uopd::cache
