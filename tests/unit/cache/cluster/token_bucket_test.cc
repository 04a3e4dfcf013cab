// SPDX-License-Identifier: MIT
#include "cache/cluster/token_bucket.h"

#include <gtest/gtest.h>

#include <random>

namespace uopd::cache {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(TokenBucketTest, ABurstAndThenOneEverySecond) {
  TokenBucket bucket(3, seconds(1));
  const Deadline begin{seconds(1000)};
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(begin)) << i;
  EXPECT_FALSE(bucket.Take(begin));
  EXPECT_FALSE(bucket.Take(begin + microseconds(999'999)));
  EXPECT_TRUE(bucket.Take(begin + seconds(1)));
  EXPECT_FALSE(bucket.Take(begin + seconds(1)));
  // It holds no more than the burst, however long nobody asks.
  const Deadline later = begin + seconds(3600);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(bucket.Take(later)) << i;
  EXPECT_FALSE(bucket.Take(later));
}

TEST(TokenBucketTest, ATokenCanBeReserved) {
  TokenBucket bucket(2, seconds(4));
  const Deadline begin{seconds(1)};
  EXPECT_EQ(bucket.Reserve(begin), begin);
  EXPECT_EQ(bucket.Reserve(begin), begin);
  EXPECT_EQ(bucket.Reserve(begin), begin + seconds(4));
  EXPECT_FALSE(bucket.Take(begin + seconds(4))) << "that one was reserved";
  EXPECT_TRUE(bucket.Take(begin + seconds(8)));
  EXPECT_EQ(bucket.Reserve(begin + seconds(9)), begin + seconds(12));
}

TEST(TokenBucketTest, TokensCanBeTakenAway) {
  TokenBucket bucket(10, seconds(1));
  const Deadline begin{seconds(100)};
  bucket.Drain(8, begin);
  EXPECT_EQ(bucket.ReadyAt(3), begin + seconds(1));
  EXPECT_TRUE(bucket.Take(begin));
  EXPECT_TRUE(bucket.Take(begin));
  EXPECT_FALSE(bucket.Take(begin));
  bucket.Drain(8, begin);
  EXPECT_EQ(bucket.ReadyAt(1), begin + seconds(1)) << "no less than none";
}

TEST(TokenBucketTest, SeveralTokensAtOnce) {
  TokenBucket bucket(10, seconds(1));
  const Deadline begin{seconds(100)};
  EXPECT_TRUE(bucket.Take(begin, 7));
  EXPECT_FALSE(bucket.Take(begin, 4)) << "three are left";
  EXPECT_TRUE(bucket.Take(begin, 3));
  EXPECT_EQ(bucket.Reserve(begin, 5), begin + seconds(5));
  EXPECT_FALSE(bucket.Take(begin + seconds(5)));
  EXPECT_TRUE(bucket.Take(begin + seconds(6)));
}

// Against a bucket that counts its tokens.
TEST(TokenBucketTest, TakesAsABucketThatCounts) {
  std::mt19937 random(5);
  for (const int burst : {1, 2, 7}) {
    constexpr int64_t kRefill = 1000;
    TokenBucket bucket(burst, microseconds(kRefill));
    int64_t now = 0, filled_at = 0, took = 0;  // the level in thousandths of a token
    int64_t level = burst * kRefill;
    for (int i = 0; i < 5000; ++i) {
      now += static_cast<int64_t>(random() % 1500);
      level = std::min<int64_t>(burst * kRefill, level + now - filled_at);
      filled_at = now;
      const bool expected = level >= kRefill;
      if (expected) level -= kRefill, ++took;
      ASSERT_EQ(bucket.Take(Deadline(microseconds(now))), expected) << burst << " " << i;
    }
    EXPECT_GT(took, 1000);
    EXPECT_LT(took, 5000);
  }
}

}  // namespace
}  // namespace uopd::cache
