// SPDX-License-Identifier: MIT
#include "server/engine/session/peer_rates.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(PeerRatesTest, EachPeerHasItsOwnCallsASecond) {
  PeerRates rates(10);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rates.Take("a", 0).ok()) << i;
  const absl::Status refused = rates.Take("a", 0);
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_NE(refused.message().find("limits.peer_requests_per_s (10)"), absl::string_view::npos);
  EXPECT_TRUE(rates.Take("b", 0).ok());
  EXPECT_TRUE(rates.Take("a", 100 * kMs).ok());  // one more after a tenth
  EXPECT_FALSE(rates.Take("a", 100 * kMs).ok());
}

TEST(PeerRatesTest, RestingSavesUpNoMoreThanASecond) {
  PeerRates rates(2);
  EXPECT_TRUE(rates.Take("a", 0).ok());
  int taken = 0;
  while (rates.Take("a", 3600'000 * kMs).ok()) ++taken;
  EXPECT_EQ(taken, 2);
  EXPECT_TRUE(rates.Take("b", 7200'000 * kMs).ok());
  EXPECT_EQ(rates.size(), 1U);  // what a had is full again, and forgotten
}

TEST(PeerRatesTest, ZeroIsAnyNumber) {
  PeerRates rates(0);
  EXPECT_FALSE(rates.limited());
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(rates.Take("a", 0).ok());
  EXPECT_EQ(rates.size(), 0U);
}

}  // namespace
}  // namespace uopd::engine
