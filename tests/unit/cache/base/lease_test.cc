// SPDX-License-Identifier: MIT
// Leases: the same promises from the file and from memory.
#include <thread>

#include "cache/store.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

class LeaseTest : public StoreFixture, public ::testing::WithParamInterface<bool> {
 protected:
  std::unique_ptr<Store> Make() {
    if (GetParam()) return Open();
    return std::make_unique<Store>(1 << 20, options_.now);
  }
};

TEST_P(LeaseTest, OneOwnerUntilItEnds) {
  auto store = Make();
  const LeaseResult first = store->TryLease(KeyOf(1), "a", kSecondUs);
  ASSERT_TRUE(first.granted());
  EXPECT_EQ(first.expires_us, now_us_ + kSecondUs);
  const LeaseResult second = store->TryLease(KeyOf(1), "b", kSecondUs);
  EXPECT_EQ(second.outcome, LeaseOutcome::kBusy);
  EXPECT_EQ(second.holder, "a");
  EXPECT_TRUE(store->TryLease(KeyOf(2), "b", kSecondUs).granted());
  now_us_ += kSecondUs / 2;
  ASSERT_TRUE(store->leases().Renew(KeyOf(1).address(), first.token, kSecondUs).ok());
  now_us_ += kSecondUs / 2 + 1;
  EXPECT_EQ(store->TryLease(KeyOf(1), "b", kSecondUs).outcome, LeaseOutcome::kBusy);
  now_us_ += kSecondUs;
  EXPECT_TRUE(absl::IsAborted(store->leases().Renew(KeyOf(1).address(), first.token, kSecondUs)));
  const LeaseResult third = store->TryLease(KeyOf(1), "b", kSecondUs);
  ASSERT_TRUE(third.granted());
  EXPECT_GT(third.token, first.token);
}

TEST_P(LeaseTest, ReleaseFreesAtOnceAndTokensGrow) {
  auto store = Make();
  int64_t last = 0;
  for (int i = 0; i < 5; ++i) {  // the clock stands still
    const LeaseResult lease = store->TryLease(KeyOf(i % 2), "a", kSecondUs);
    ASSERT_TRUE(lease.granted());
    EXPECT_GT(lease.token, last);
    last = lease.token;
    ASSERT_TRUE(store->ReleaseLease(KeyOf(i % 2), lease.token).ok());
  }
  EXPECT_TRUE(absl::IsAborted(store->ReleaseLease(KeyOf(0), last + 1)));
}

TEST_P(LeaseTest, StaleTokensAreRefused) {
  auto store = Make();
  const LeaseResult old = store->TryLease(KeyOf(1), "a", kSecondUs);
  now_us_ += 2 * kSecondUs;
  const LeaseResult current = store->TryLease(KeyOf(1), "b", kSecondUs);
  ASSERT_TRUE(current.granted());
  EXPECT_TRUE(absl::IsAborted(store->PutFenced(KeyOf(1), "old", 1, old.token)));
  EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss);
  ASSERT_TRUE(store->PutFenced(KeyOf(1), "new", 1, current.token).ok());
  EXPECT_TRUE(absl::IsAborted(store->PutFenced(KeyOf(1), "old", 1, old.token)));
  EXPECT_TRUE(absl::IsAborted(store->PutFenced(KeyOf(5), "never leased", 1, 7)));
  ASSERT_TRUE(store->Put(KeyOf(1), "without a lease", 1).ok());
  ASSERT_TRUE(store->Flush().ok());
  const GetResult found = store->Get(KeyOf(1));
  EXPECT_EQ(found.entry.bytes, "new");
  EXPECT_EQ(found.entry.fence, current.token);
  EXPECT_EQ(store->stats().Snapshot("kernel").stale_puts, 4);
}

TEST_P(LeaseTest, AnExpiredLeaseThatNobodyTookMayStillPut) {
  auto store = Make();
  const LeaseResult lease = store->TryLease(KeyOf(1), "a", kSecondUs);
  now_us_ += 2 * kSecondUs;
  EXPECT_TRUE(store->PutFenced(KeyOf(1), "late", 1, lease.token).ok());
}

TEST_P(LeaseTest, WatchEndsWhenReadyFreeLateOrCancelled) {
  auto store = Make();
  const auto past = std::chrono::steady_clock::now();
  EXPECT_EQ(store->WatchReady(KeyOf(1), {}), WatchOutcome::kLeaseFree);
  const LeaseResult lease = store->TryLease(KeyOf(1), "a", kSecondUs);
  EXPECT_EQ(store->WatchReady(KeyOf(1), {.deadline = past}), WatchOutcome::kDeadlineExceeded);
  EXPECT_EQ(store->WatchReady(KeyOf(1), {.cancelled = [] { return true; }}),
            WatchOutcome::kCancelled);
  std::thread other([&] { EXPECT_TRUE(store->PutFenced(KeyOf(1), "x", 1, lease.token).ok()); });
  EXPECT_EQ(store->WatchReady(KeyOf(1), {}), WatchOutcome::kReady);
  other.join();
  const LeaseResult second = store->TryLease(KeyOf(2), "a", kSecondUs);
  std::thread dies([&] { now_us_ += 2 * kSecondUs; });  // its owner never comes back
  EXPECT_EQ(store->WatchReady(KeyOf(2), {}), WatchOutcome::kLeaseFree);
  dies.join();
  EXPECT_TRUE(second.granted());
}

INSTANTIATE_TEST_SUITE_P(Stores, LeaseTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Sqlite" : "Memory"; });

using SharedLeaseTest = StoreFixture;

TEST_F(SharedLeaseTest, HoldsAcrossStoresAndOpens) {
  auto a = Open();
  int64_t token;
  {
    const auto b = Open();
    const LeaseResult lease = a->TryLease(KeyOf(1), "a", kSecondUs);
    ASSERT_TRUE(lease.granted());
    token = lease.token;
    EXPECT_EQ(b->TryLease(KeyOf(1), "b", kSecondUs).outcome, LeaseOutcome::kBusy);
    std::thread other([&] { EXPECT_TRUE(a->PutFenced(KeyOf(1), "x", 1, token).ok()); });
    EXPECT_EQ(b->WatchReady(KeyOf(1), {}), WatchOutcome::kReady);
    other.join();
    const LeaseResult kept = a->TryLease(KeyOf(2), "a", kSecondUs);
    ASSERT_TRUE(kept.granted());
    token = kept.token;
    ASSERT_TRUE(a->TryLease(KeyOf(3), "a", 3600 * kSecondUs).granted());
  }
  const auto c = Open();
  EXPECT_EQ(c->TryLease(KeyOf(2), "c", kSecondUs).outcome, LeaseOutcome::kBusy);
  now_us_ += 2 * kSecondUs;
  const LeaseResult next = c->TryLease(KeyOf(2), "c", kSecondUs);
  EXPECT_GT(next.token, token);
  // The leases of a store that is gone are free.
  EXPECT_EQ(c->TryLease(KeyOf(3), "c", kSecondUs).outcome, LeaseOutcome::kBusy);
  a.reset();
  EXPECT_GT(c->TryLease(KeyOf(3), "c", kSecondUs).token, next.token);
}

}  // namespace
}  // namespace uopd::cache
