// SPDX-License-Identifier: MIT
#include "cache/base/lease/lease_keeper.h"

#include <gtest/gtest.h>

#include <optional>

#include "cache/memory/memory_leases.h"

namespace uopd::cache {
namespace {

constexpr int64_t kTtl = 60'000;  // microseconds

bool Eventually(const std::function<bool()>& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!what() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return what();
}

class LeaseKeeperTest : public ::testing::Test {
 protected:
  // Counts renewals; refuses them when told.
  class Counting final : public Leases {
   public:
    LeaseResult TryLease(const Digest& a, std::string_view owner, int64_t ttl_us) override {
      return inner.TryLease(a, owner, ttl_us);
    }
    absl::Status Renew(const Digest& a, int64_t token, int64_t ttl_us) override {
      ++renewals;
      if (unavailable) return absl::UnavailableError("locked");
      return inner.Renew(a, token, ttl_us);
    }
    absl::Status Release(const Digest& a, int64_t token) override {
      return inner.Release(a, token);
    }
    absl::Status CheckNewest(const Digest& a, int64_t token) override {
      return inner.CheckNewest(a, token);
    }
    bool IsHeld(const Digest& a) override { return inner.IsHeld(a); }

    MemoryLeases inner;
    std::atomic<int> renewals{0};
    std::atomic<bool> unavailable{false};
  };

  Counting leases_;
  LeaseKeeper keeper_{leases_};
  const Digest one_ = HashBytes("one"), two_ = HashBytes("two");
};

TEST_F(LeaseKeeperTest, RenewsUntilTheScopeEnds) {
  const LeaseResult lease = leases_.TryLease(one_, "a", kTtl);
  const int64_t begin_us = WallClockUs();
  {
    const LeaseKeeper::Scope scope(keeper_, one_, lease.token, kTtl);
    // Lost only on a machine that stood still.
    ASSERT_TRUE(Eventually([&] {
      return scope.lost() || (WallClockUs() > begin_us + 4 * kTtl && leases_.renewals >= 3);
    }));
    EXPECT_TRUE(leases_.IsHeld(one_) || scope.lost());
  }
  EXPECT_TRUE(Eventually([&] { return !leases_.IsHeld(one_); }));
}

TEST_F(LeaseKeeperTest, KnowsWhenALeaseWasTakenOver) {
  const LeaseResult lost = leases_.TryLease(one_, "a", kTtl);
  const LeaseResult kept = leases_.TryLease(two_, "a", 60'000'000);
  const LeaseKeeper::Scope first(keeper_, one_, lost.token, kTtl);
  const LeaseKeeper::Scope second(keeper_, two_, kept.token, 60'000'000);
  EXPECT_FALSE(first.lost());
  ASSERT_TRUE(leases_.Release(one_, lost.token).ok());
  ASSERT_TRUE(leases_.TryLease(one_, "b", 60'000'000).granted());
  EXPECT_TRUE(Eventually([&] { return first.lost(); }));
  EXPECT_FALSE(second.lost());
}

TEST_F(LeaseKeeperTest, LeasesThatCannotBeAskedAreNotLost) {
  leases_.unavailable = true;
  const LeaseResult lease = leases_.TryLease(one_, "a", 60'000'000);
  const LeaseKeeper::Scope scope(keeper_, one_, lease.token, 3'000);
  EXPECT_TRUE(Eventually([&] { return leases_.renewals >= 5; }));
  EXPECT_FALSE(scope.lost());
}

TEST_F(LeaseKeeperTest, AStrictLeaseThatCannotBeRenewedIsLost) {
  const LeaseResult lease = leases_.TryLease(one_, "a", kTtl);
  leases_.unavailable = true;
  const auto begin = std::chrono::steady_clock::now();
  const LeaseKeeper::Scope scope(keeper_, one_, lease.token, kTtl, /*strict=*/true);
  EXPECT_FALSE(scope.lost());
  ASSERT_TRUE(Eventually([&] { return scope.lost(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::microseconds(kTtl));
  EXPECT_GE(leases_.renewals, 2);
}

// So whoever loses the server has nearly the whole lease left.
TEST(KeptLeaseTest, AStrictOneIsRenewedMoreOften) {
  const Deadline begin{std::chrono::seconds(100)};
  const Digest address = HashBytes("one");
  KeptLease loose(address, 1, 30'000'000, /*strict=*/false, begin);
  KeptLease strict(address, 1, 30'000'000, /*strict=*/true, begin);
  EXPECT_EQ(loose.due(), begin + std::chrono::seconds(10));
  EXPECT_EQ(strict.due(), begin + std::chrono::seconds(3));
  EXPECT_FALSE(strict.TakeDue(begin + std::chrono::milliseconds(2999)));
  EXPECT_TRUE(strict.TakeDue(begin + std::chrono::milliseconds(3100)));
  EXPECT_EQ(strict.due(), begin + std::chrono::milliseconds(6100));
}

TEST_F(LeaseKeeperTest, NoLeaseIsNeverLost) {
  const LeaseKeeper::Scope scope(keeper_, one_, 0, kTtl);
  EXPECT_FALSE(scope.lost());
}

}  // namespace
}  // namespace uopd::cache
