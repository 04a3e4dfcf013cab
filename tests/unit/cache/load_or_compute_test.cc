// SPDX-License-Identifier: MIT
#include "cache/load_or_compute.h"

#include <latch>
#include <thread>

#include "cache/memory/memory_tier.h"
#include "cache/store.h"
#include "core/base/text.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

using Flights = SingleFlight<std::string>;
const Digest kKey = HashBytes("key");

void AwaitWaiters(const Flights& flights, int count) {
  while (flights.waiters(kKey) < count) std::this_thread::yield();
}

TEST(SingleFlightTest, ManyThreadsOneComputation) {
  Flights flights;
  std::atomic<int> computed{0}, waited{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      auto result = flights.Do(kKey, {}, [&](const WorkLimits&) -> absl::StatusOr<std::string> {
        ++computed;
        AwaitWaiters(flights, 7);
        return "answer";
      });
      ASSERT_TRUE(result.value.ok());
      EXPECT_EQ(**result.value, "answer");
      waited += result.waited;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(computed, 1);
  EXPECT_EQ(waited, 7);
}

TEST(SingleFlightTest, ErrorsGoToWaitersAndAreForgotten) {
  Flights flights;
  std::latch started(1);
  std::thread leader([&] {
    auto result = flights.Do(kKey, {}, [&](const WorkLimits&) -> absl::StatusOr<std::string> {
      started.count_down();
      AwaitWaiters(flights, 1);
      return absl::InvalidArgumentError("bad graph");
    });
    EXPECT_FALSE(result.waited);
  });
  started.wait();
  auto result =
      flights.Do(kKey, {}, [](const WorkLimits&) -> absl::StatusOr<std::string> { return "mine"; });
  leader.join();
  EXPECT_TRUE(result.waited);
  EXPECT_TRUE(absl::IsInvalidArgument(result.value.status()));
  auto next =
      flights.Do(kKey, {}, [](const WorkLimits&) -> absl::StatusOr<std::string> { return "good"; });
  EXPECT_EQ(**next.value, "good");
  EXPECT_FALSE(next.waited);
}

TEST(SingleFlightTest, AWaiterTakesOverWhenTheLeaderIsCancelled) {
  Flights flights;
  std::latch started(1);
  std::thread leader([&] {
    auto result = flights.Do(kKey, {}, [&](const WorkLimits&) -> absl::StatusOr<std::string> {
      started.count_down();
      AwaitWaiters(flights, 1);
      return absl::CancelledError("client left");
    });
    EXPECT_TRUE(absl::IsCancelled(result.value.status()));
  });
  started.wait();
  auto result =
      flights.Do(kKey, {}, [](const WorkLimits&) -> absl::StatusOr<std::string> { return "mine"; });
  leader.join();
  ASSERT_TRUE(result.value.ok());
  EXPECT_EQ(**result.value, "mine");
  EXPECT_FALSE(result.waited);
}

TEST(SingleFlightTest, WaitersStopAtTheirOwnLimits) {
  Flights flights;
  std::latch started(1), finish(1);
  std::thread leader([&] {
    flights.Do(kKey, {}, [&](const WorkLimits&) -> absl::StatusOr<std::string> {
      started.count_down();
      finish.wait();
      return "slow";
    });
  });
  started.wait();
  auto never = [](const WorkLimits&) -> absl::StatusOr<std::string> { return "never"; };
  auto late = flights.Do(kKey, {.deadline = std::chrono::steady_clock::now()}, never);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.value.status()));
  int polls = 0;
  auto cancelled = flights.Do(kKey, {.cancelled = [&] { return ++polls == 3; }}, never);
  EXPECT_TRUE(absl::IsCancelled(cancelled.value.status()));
  finish.count_down();
  leader.join();
  EXPECT_EQ(flights.waiters(kKey), 0);
}

// The leader's own end does not end what another one waits for; the last one's does.
TEST(SingleFlightTest, TheLeaderWorksForAllWhoWait) {
  Flights flights;
  std::latch started(1);
  std::atomic<bool> leader_left{false}, waiter_left{false};
  std::atomic<int> asked{0};
  std::thread leader([&] {
    auto result = flights.Do(kKey, {.cancelled = [&] { return leader_left.load(); }},
                             [&](const WorkLimits& limits) -> absl::StatusOr<std::string> {
                               started.count_down();
                               AwaitWaiters(flights, 1);
                               leader_left = true;
                               for (int i = 0; i < 100; ++i) EXPECT_FALSE(limits.cancelled());
                               waiter_left = true;
                               while (!limits.cancelled()) std::this_thread::yield();
                               ++asked;
                               return absl::CancelledError("nobody wants it");
                             });
    EXPECT_TRUE(absl::IsCancelled(result.value.status()));
  });
  started.wait();
  auto result =
      flights.Do(kKey, {.cancelled = [&] { return waiter_left.load(); }},
                 [](const WorkLimits&) -> absl::StatusOr<std::string> { return "not computed"; });
  EXPECT_TRUE(absl::IsCancelled(result.value.status()));
  leader.join();
  EXPECT_EQ(asked, 1);
}

TEST(SingleFlightTest, WhatGivesUpSaysWhy) {
  Flights flights;
  auto result = flights.Do(kKey, {.deadline = std::chrono::steady_clock::now()},
                           [](const WorkLimits& limits) -> absl::StatusOr<std::string> {
                             EXPECT_TRUE(limits.cancelled());
                             return absl::CancelledError("nobody wants it");
                           });
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.value.status()));
}

using LoadTest = StoreFixture;

TEST_F(LoadTest, ComputesThenHits) {
  auto store = Open();
  LoadGroup group;
  int computed = 0;
  auto load = [&] {
    return group.LoadOrCompute(*store, KeyOf(1), {},
                               [&](const WorkLimits&) -> absl::StatusOr<std::string> {
                                 ++computed;
                                 return "made";
                               });
  };
  auto first = load();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->outcome, LoadOutcome::kComputed);
  EXPECT_EQ(first->lookup, GetOutcome::kMiss);
  ASSERT_TRUE(store->Flush().ok());
  auto second = load();
  EXPECT_EQ(second->outcome, LoadOutcome::kDiskHit);
  EXPECT_EQ(*second->bytes, "made");
  EXPECT_EQ(computed, 1);
}

TEST_F(LoadTest, MemoryHitAndUnkeptErrors) {
  Store store(1 << 20);
  LoadGroup group;
  auto fail = [](const WorkLimits&) {
    return absl::StatusOr<std::string>(absl::InvalidArgumentError("no"));
  };
  auto make = [](const WorkLimits&) { return absl::StatusOr<std::string>("yes"); };
  for (const int64_t ttl : {0, 1000000}) {
    const Key key = KeyOf(static_cast<int>(ttl));
    const LoadOptions options{.lease_ttl_us = ttl, .owner = "test"};
    EXPECT_TRUE(absl::IsInvalidArgument(group.LoadOrCompute(store, key, options, fail).status()));
    EXPECT_EQ(group.LoadOrCompute(store, key, options, make)->outcome, LoadOutcome::kComputed);
    EXPECT_EQ(group.LoadOrCompute(store, key, options, fail)->outcome, LoadOutcome::kMemoryHit);
  }
}

TEST_F(LoadTest, TwoDaemonsOneComputation) {
  auto a = Open(), b = Open();
  LoadGroup group_a, group_b;  // as in two processes
  const LoadOptions options{.lease_ttl_us = 60'000'000, .owner = "daemon"};
  std::atomic<int> computed{0};
  std::latch started(1);
  std::thread first([&] {
    auto loaded = group_a.LoadOrCompute(*a, KeyOf(1), options,
                                        [&](const WorkLimits&) -> absl::StatusOr<std::string> {
                                          ++computed;
                                          started.count_down();
                                          return "winner";
                                        });
    EXPECT_EQ(loaded->outcome, LoadOutcome::kComputed);
  });
  started.wait();
  auto loaded = group_b.LoadOrCompute(*b, KeyOf(1), options,
                                      [&](const WorkLimits&) -> absl::StatusOr<std::string> {
                                        ++computed;
                                        return "other";
                                      });
  first.join();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(*loaded->bytes, "winner");
  EXPECT_NE(loaded->outcome, LoadOutcome::kComputed);
  EXPECT_EQ(computed, 1);
}

TEST_F(LoadTest, AWaiterTakesOverFromADeadDaemonWhichThenAgrees) {
  auto a = Open(), b = Open();
  LoadGroup group_a, group_b;
  const LoadOptions options{.lease_ttl_us = 1'000'000, .owner = "daemon"};
  auto late = group_a.LoadOrCompute(
      *a, KeyOf(1), options, [&](const WorkLimits&) -> absl::StatusOr<std::string> {
        now_us_ += 2'000'000;  // it sleeps past its lease, and another daemon computes meanwhile
        auto taken = group_b.LoadOrCompute(*b, KeyOf(1), options, [](const WorkLimits&) {
          return absl::StatusOr<std::string>("second");
        });
        EXPECT_EQ(taken->outcome, LoadOutcome::kComputed);
        return "first";
      });
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(*late->bytes, "second");  // everybody returns the same winner
  EXPECT_EQ(a->stats().Snapshot("kernel").stale_puts, 1);
}

// The clock is the machine's: a computation of several lease times keeps its lease. They are long,
// since a busy machine renews it late.
TEST_F(LoadTest, ASlowComputationKeepsItsLease) {
  options_.now = WallClockUs;
  auto a = Open(), b = Open();
  LoadGroup group_a, group_b;
  const LoadOptions options{.lease_ttl_us = 1'500'000, .owner = "daemon"};
  std::atomic<int> computed{0};
  std::latch started(1);
  std::thread first([&] {
    auto loaded = group_a.LoadOrCompute(
        *a, KeyOf(1), options, [&](const WorkLimits& limits) -> absl::StatusOr<std::string> {
          ++computed;
          started.count_down();
          const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(3500);
          while (std::chrono::steady_clock::now() < end) {
            if (limits.cancelled()) return absl::CancelledError("lost");
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          return "slow";
        });
    EXPECT_EQ(*loaded->bytes, "slow");
  });
  started.wait();
  auto loaded = group_b.LoadOrCompute(*b, KeyOf(1), options,
                                      [&](const WorkLimits&) -> absl::StatusOr<std::string> {
                                        ++computed;
                                        return "other";
                                      });
  first.join();
  EXPECT_EQ(*loaded->bytes, "slow");
  EXPECT_EQ(loaded->outcome, LoadOutcome::kWaited);
  EXPECT_EQ(computed, 1);
}

TEST_F(LoadTest, WhoLosesTheLeaseStopsAndAwaitsTheNewOwner) {
  auto a = Open(), b = Open();
  LoadGroup group_a;
  int computed = 0;
  auto loaded =
      group_a.LoadOrCompute(*a, KeyOf(1), {.lease_ttl_us = 3000, .owner = "daemon"},
                            [&](const WorkLimits& limits) -> absl::StatusOr<std::string> {
                              ++computed;
                              now_us_ += 2'000'000;  // it sleeps past its lease
                              const LeaseResult lease = b->TryLease(KeyOf(1), "other", 60'000'000);
                              EXPECT_TRUE(lease.granted());
                              while (!limits.cancelled()) std::this_thread::yield();
                              EXPECT_TRUE(b->PutFenced(KeyOf(1), "theirs", 1, lease.token).ok());
                              return absl::CancelledError("lost the lease");
                            });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded->bytes, "theirs");
  EXPECT_EQ(computed, 1);
}

TEST_F(LoadTest, ReplacesOrLeavesTheStoreAlone) {
  auto store = Open();
  LoadGroup group;
  auto make = [](const char* bytes) {
    return [bytes](const WorkLimits&) { return absl::StatusOr<std::string>(bytes); };
  };
  for (const int64_t ttl : {0, 1000000}) {
    SCOPED_TRACE(ttl);
    const Key key = KeyOf(ttl > 0);
    LoadOptions options{.lease_ttl_us = ttl, .owner = "test", .use = Use::kNone};
    EXPECT_EQ(*group.LoadOrCompute(*store, key, options, make("unkept"))->bytes, "unkept");
    EXPECT_EQ(store->Get(key).outcome, GetOutcome::kMiss);
    options.use = Use::kReadAndKeep;
    EXPECT_EQ(*group.LoadOrCompute(*store, key, options, make("first"))->bytes, "first");
    options.use = Use::kNone;
    EXPECT_EQ(*group.LoadOrCompute(*store, key, options, make("unkept"))->bytes, "unkept");
    EXPECT_EQ(store->Get(key).entry.bytes, "first");
    ASSERT_TRUE(store->Flush().ok());  // and the lease is released
    options.use = Use::kReplace;
    EXPECT_EQ(*group.LoadOrCompute(*store, key, options, make("second"))->bytes, "second");
    EXPECT_EQ(store->Get(key).entry.bytes, "second");
  }
}

TEST_F(LoadTest, ACorruptRowIsComputedAgain) {
  auto store = Open();
  Fill(*store, 2);
  {
    auto db = sqlite::Database::Open(path(), {});
    ASSERT_TRUE((*db)->Execute("UPDATE entry SET value=x'00'").ok());
  }
  LoadGroup group;
  for (const int64_t ttl : {0, 1000000}) {
    const LoadOptions options{.lease_ttl_us = ttl, .owner = "test"};
    const Key key = KeyOf(ttl > 0);
    auto make = [](const WorkLimits&) { return absl::StatusOr<std::string>("again"); };
    auto loaded = group.LoadOrCompute(*store, key, options, make);
    EXPECT_EQ(loaded->lookup, GetOutcome::kCorrupt);
    EXPECT_EQ(loaded->outcome, LoadOutcome::kComputed);
    ASSERT_TRUE(store->Flush().ok());
    EXPECT_EQ(store->Get(key).entry.bytes, "again");
  }
}

// Leases of a server that is broken or lies: somebody always holds them, and renews them.
class EndlessLeases final : public Leases {
 public:
  LeaseResult TryLease(const Digest&, std::string_view, int64_t) override {
    ++asked;
    return {.outcome = LeaseOutcome::kBusy, .expires_us = WallClockUs() + asked, .holder = "ghost"};
  }
  absl::Status Renew(const Digest&, int64_t, int64_t) override { return LeaseLost(); }
  absl::Status Release(const Digest&, int64_t) override { return LeaseLost(); }
  absl::Status CheckNewest(const Digest&, int64_t) override { return LeaseLost(); }
  // Free for whom looks, busy for whom asks.
  bool IsHeld(const Digest&) override { return ++looked % 3 != 0 || !sometimes_free; }

  std::atomic<int> asked{0}, looked{0};
  std::atomic<bool> sometimes_free{false};
};

class EndlessLeaseTest : public ::testing::Test {
 protected:
  EndlessLeaseTest() {
    auto stats = std::make_unique<StatsTable>();
    std::vector<std::unique_ptr<Tier>> tiers;
    tiers.push_back(std::make_unique<MemoryTier>(1 << 20, WallClockUs, *stats));
    auto leases = std::make_unique<EndlessLeases>();
    leases_ = leases.get();
    store_ = std::make_unique<Store>(std::move(stats), std::move(tiers), std::move(leases));
  }
  std::string Load(int i, const LoadOptions& options) {
    const auto loaded = group_.LoadOrCompute(
        *store_, KeyOf(i), options,
        [](const WorkLimits&) -> absl::StatusOr<std::string> { return "own"; });
    return loaded.ok() ? Cat(*loaded->bytes, " ", Name(loaded->outcome))
                       : Cat(static_cast<int>(loaded.status().code()));
  }
  static Key KeyOf(int i) { return Key("kernel", Cat("graph ", i), "env"); }

  EndlessLeases* leases_ = nullptr;
  std::unique_ptr<Store> store_;
  LoadGroup group_;
};

TEST_F(EndlessLeaseTest, AfterItsPatienceALoadComputesForItself) {
  const LoadOptions options{
      .lease_ttl_us = 5'000'000, .owner = "me", .patience = std::chrono::milliseconds(30)};
  for (const bool sometimes_free : {false, true}) {
    leases_->sometimes_free = sometimes_free;
    EXPECT_EQ(Load(sometimes_free, options), "own computed");
    EXPECT_EQ(Load(sometimes_free, options), "own memory_hit");
  }
}

TEST_F(EndlessLeaseTest, ARequestThatEndsBeforeSaysSo) {
  const LoadOptions options{.limits = {.cancelled = [] { return true; }},
                            .lease_ttl_us = 5'000'000,
                            .owner = "me",
                            .patience = std::chrono::hours(1)};
  EXPECT_EQ(Load(1, options), Cat(static_cast<int>(absl::StatusCode::kCancelled)));
}

// A server that grants leases and then says that they were lost: the value is kept all the same.
TEST_F(LoadTest, AValueThatNobodyElsePutsIsKept) {
  auto a = Open(), b = Open();
  LoadGroup group;
  const auto loaded = group.LoadOrCompute(*a, KeyOf(1), {.lease_ttl_us = 60'000'000, .owner = "a"},
                                          [&](const WorkLimits&) -> absl::StatusOr<std::string> {
                                            now_us_ += 120'000'000;
                                            const LeaseResult lease =
                                                b->TryLease(KeyOf(1), "b", 1000);
                                            EXPECT_TRUE(lease.granted());
                                            now_us_ += 120'000'000;  // b ends without a value
                                            return "kept";
                                          });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(*loaded->bytes, "kept");
  EXPECT_EQ(a->Get(KeyOf(1)).entry.bytes, "kept");
}

TEST(PatienceTest, HalvesAfterWaitsInVain) {
  using std::chrono::seconds;
  Patience patience;
  EXPECT_EQ(patience.Of(seconds(64)), seconds(64));
  patience.WaitedInVain();
  EXPECT_EQ(patience.Of(seconds(64)), seconds(32));
  for (int i = 0; i < 100; ++i) patience.WaitedInVain();
  EXPECT_EQ(patience.Of(seconds(64)), seconds(1));
  patience.GotIt();
  EXPECT_EQ(patience.Of(seconds(64)), seconds(64));
}

TEST(LoadOrComputeTest, ALoadThatDoesNotWaitForAnOwnerSaysWhoItIs) {
  Store store(1 << 20);
  const Key key("kernel", "graph", "env");
  ASSERT_TRUE(store.TryLease(key, "far away", 60'000'000).granted());
  LoadGroup group;
  const LoadOptions options{
      .lease_ttl_us = 60'000'000, .owner = "me", .waits_for = [](std::string_view holder) {
        return holder != "far away";
      }};
  const auto loaded = group.LoadOrCompute(store, key, options,
                                          [](const WorkLimits&) -> absl::StatusOr<std::string> {
                                            ADD_FAILURE() << "computed";
                                            return "";
                                          });
  EXPECT_TRUE(absl::IsAborted(loaded.status()));
  EXPECT_NE(loaded.status().message().find("far away"), std::string::npos);
}

}  // namespace
}  // namespace uopd::cache
