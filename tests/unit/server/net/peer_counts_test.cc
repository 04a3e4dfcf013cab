// SPDX-License-Identifier: MIT
#include "server/net/peer_counts.h"

#include <gtest/gtest.h>

namespace uopd::net {
namespace {

TEST(PeerCounts, KnowOnlyPeersThatHaveAConnection) {
  PeerCounts counts;
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(counts.Of("refused " + std::to_string(i)), 0U);
  EXPECT_EQ(counts.peers(), 0U);
  counts.Add("a");
  counts.Add("a");
  counts.Add("b");
  EXPECT_EQ(counts.Of("a"), 2U);
  EXPECT_EQ(counts.peers(), 2U);
  counts.Remove("a");
  counts.Remove("b");
  EXPECT_EQ(counts.Of("a"), 1U);
  EXPECT_EQ(counts.Of("b"), 0U);
  EXPECT_EQ(counts.peers(), 1U);
  counts.Remove("a");
  EXPECT_EQ(counts.peers(), 0U);
}

}  // namespace
}  // namespace uopd::net
