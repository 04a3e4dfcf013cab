// SPDX-License-Identifier: MIT
// Stores that share rows and leases by a server which is there, away, or lying.
#include "cache/cluster/cluster.h"

#include <limits>
#include <thread>
#include <utility>

#include "cache/base/lease/tokens.h"
#include "cache/cluster/cluster_leases.h"
#include "cache/cluster/refill.h"
#include "cache/cluster/search_gate.h"
#include "cache/load_or_compute.h"
#include "cache/memory/memory_tier.h"
#include "cache/store.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "tests/support/eventually.h"
#include "tests/unit/cache/cluster/key_files.h"
#include "tests/unit/cache/cluster/sharing_store.h"

namespace uopd::cache {
namespace {

class ClusterTest : public KeyFiles {
 protected:
  std::unique_ptr<Store> Open(const RefillOptions& refill = {}) {
    ClusterOptions options{
        .sign = hmac_, .trusted = {hmac_}, .send_budget = std::chrono::milliseconds(100)};
    options.breaker = {.failures = 3, .pause_us = 20'000, .max_pause_us = 40'000};
    options.on_change = [this](const std::string& line) {
      const MutexLock lock(mu_);
      lines_.push_back(line);
    };
    return SharingStore(state_, std::move(options), refill);
  }
  // Announces until the store hears it. Returns how many it heard.
  int64_t AwaitListening(const Store& store) {
    EXPECT_TRUE(test::Eventually([&] {
      Announce(HashBytes("nobody's"));
      return store.maybe_cluster()->stats().announced > 0;
    }));
    // What is on its way has come when a whole wait of the server brought nothing.
    int64_t heard = 0;
    EXPECT_TRUE(test::Eventually([&] {
      const int64_t before = std::exchange(heard, store.maybe_cluster()->stats().announced.load());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return before == heard;
    }));
    return heard;
  }
  size_t Notices() {
    const MutexLock lock(state_->mu);
    return state_->notices.size();
  }
  void Announce(const Digest& environment) {
    const MutexLock lock(state_->mu);
    state_->announced.push_back({KeyOf(1).address(), "kernel", environment, {}});
    state_->changed.notify_all();
  }
  static Key KeyOf(int i) { return Key("kernel", Cat("graph ", i), "env"); }
  static int64_t Refused(const Store& store, RecordFault fault) {
    return store.maybe_cluster()->stats().refused[static_cast<size_t>(fault)];
  }
  std::vector<std::string> Lines() {
    const MutexLock lock(mu_);
    return lines_;
  }

  const std::shared_ptr<FakeServerState> state_ = std::make_shared<FakeServerState>();
  Mutex mu_;
  std::vector<std::string> lines_ UOPD_GUARDED_BY(mu_);
};

TEST_F(ClusterTest, OneStoreReadsWhatTheOtherPut) {
  const auto a = Open(), b = Open();
  ASSERT_TRUE(a->Put(KeyOf(1), "value", 10).ok());
  ASSERT_TRUE(a->Flush().ok());
  GetResult found = b->Get(KeyOf(1));
  ASSERT_TRUE(found.hit());
  EXPECT_EQ(found.source, Source::kCluster);
  EXPECT_EQ(found.entry.bytes, "value");
  EXPECT_EQ(found.entry.cost_us, 10);
  found = b->Get(KeyOf(1));
  EXPECT_EQ(found.source, Source::kMemory) << "the row is its own now";
  EXPECT_EQ(b->Get(KeyOf(2)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(b->maybe_cluster()->stats().hits, 1);
  EXPECT_EQ(b->maybe_cluster()->stats().misses, 1);
}

TEST_F(ClusterTest, WhatOthersPutComesByItselfOnceTheEnvironmentIsUsed) {
  const auto a = Open(), b = Open(), c = Open();
  AwaitListening(*b);
  AwaitListening(*a);
  const int64_t heard = AwaitListening(*c);
  EXPECT_FALSE(b->Get(KeyOf(1)).hit());  // now b has a use for "env"; c has none
  ASSERT_TRUE(a->Put(KeyOf(2), "value", 10).ok());
  EXPECT_TRUE(test::Eventually([&] { return b->maybe_cluster()->stats().fetched == 1; }));
  const int before = state_->Calls();
  EXPECT_EQ(b->Get(KeyOf(2)).source, Source::kMemory);
  EXPECT_EQ(state_->Calls(), before) << "nobody asked the server";
  EXPECT_TRUE(test::Eventually([&] { return c->maybe_cluster()->stats().announced == heard + 1; }));
  EXPECT_EQ(c->maybe_cluster()->stats().fetched, 0);
  EXPECT_EQ(a->maybe_cluster()->stats().fetched, 0) << "its own";
}

TEST_F(ClusterTest, OneComputesForAll) {
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < 4; ++i) stores.push_back(Open());
  constexpr int kKeys = 10;
  std::atomic<int> computed{0};
  std::vector<std::string> values(stores.size() * kKeys);
  std::vector<std::thread> threads;
  std::vector<LoadGroup> groups(stores.size());
  for (size_t s = 0; s < stores.size(); ++s) {
    threads.emplace_back([&, s] {
      for (size_t i = 0; i < kKeys; ++i) {
        const LoadOptions options{.lease_ttl_us = 10'000'000, .owner = Cat("store ", s)};
        const auto loaded =
            groups[s].LoadOrCompute(*stores[s], KeyOf(static_cast<int>(i)), options,
                                    [&](const WorkLimits&) -> absl::StatusOr<std::string> {
                                      return Cat("value ", ++computed);
                                    });
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        values[s * kKeys + i] = *loaded->bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(computed, kKeys);
  for (size_t i = kKeys; i < values.size(); ++i) EXPECT_EQ(values[i], values[i % kKeys]);
}

TEST_F(ClusterTest, AServerThatIsAwayIsAMissAndThenNotAsked) {
  state_->SetAway(true);
  const auto store = Open();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(store->Get(KeyOf(i)).outcome, GetOutcome::kMiss);
  EXPECT_LT(state_->Calls(), 20);
  EXPECT_EQ(store->maybe_cluster()->stats().unavailable, 50);
  ASSERT_TRUE(store->Put(KeyOf(1), "value", 1).ok());
  ASSERT_TRUE(store->Flush().ok()) << "nobody waits for the server";
  EXPECT_TRUE(store->Get(KeyOf(1)).hit());
  const LeaseResult lease = store->TryLease(KeyOf(2), "me", 1'000'000);
  EXPECT_TRUE(lease.granted()) << "of this machine";
  EXPECT_FALSE(store->TryLease(KeyOf(2), "other", 1'000'000).granted());
  state_->SetAway(false);
  // The row that the server did not take goes there when it answers again.
  const auto other = Open();
  EXPECT_TRUE(test::Eventually([&] { return other->Get(KeyOf(1)).hit(); }));
  EXPECT_FALSE(store->TryLease(KeyOf(2), "other", 1'000'000).granted()) << "still held";
  EXPECT_TRUE(store->ReleaseLease(KeyOf(2), lease.token).ok());
  EXPECT_TRUE(store->TryLease(KeyOf(2), "other", 1'000'000).granted());
  ASSERT_TRUE(test::Eventually([&] { return Lines().size() >= 2; }));
  const std::vector<std::string> lines = Lines();
  EXPECT_NE(lines[0].find("does not answer"), std::string::npos);
  EXPECT_NE(lines.back().find("answers again"), std::string::npos);
}

TEST_F(ClusterTest, RecordsWithoutATrustedSignatureAreCountedAndRefused) {
  const auto store = Open();
  const int64_t heard = AwaitListening(*store);
  const Row row = MakeRow(KeyOf(1), "evil", 1, 1, int64_t{1} << 60);
  const std::string signed_by_other = WriteRecord(row, other_hmac_);
  std::string changed = WriteRecord(row, hmac_);
  changed[20] ^= 1;
  const std::pair<std::string, RecordFault> cases[] = {
      {signed_by_other, RecordFault::kUnknownKey},
      {changed, RecordFault::kSignature},
      {"garbage", RecordFault::kForeign},
      {WriteRecord(MakeRow(KeyOf(2), "other", 1, 1, 1), hmac_), RecordFault::kOtherKey}};
  for (const auto& [record, fault] : cases) {
    {
      const MutexLock lock(state_->mu);
      state_->records[KeyOf(1).address()] = {int64_t{1} << 60, record};
    }
    Announce(HashBytes("env"));
    EXPECT_FALSE(store->Get(KeyOf(1)).hit());
    EXPECT_GE(Refused(*store, fault), 1);
  }
  EXPECT_EQ(store->maybe_cluster()->stats().hits, 0);
  EXPECT_TRUE(
      test::Eventually([&] { return store->maybe_cluster()->stats().announced == heard + 4; }));
  EXPECT_EQ(store->maybe_cluster()->stats().fetched, 0);
}

TEST_F(ClusterTest, AnOldOwnerDoesNotReplaceTheValueOfTheNew) {
  const auto a = Open(), b = Open();
  const LeaseResult old = a->TryLease(KeyOf(1), "a", 1000);
  ASSERT_TRUE(old.granted());
  LeaseResult next;
  ASSERT_TRUE(
      test::Eventually([&] { return (next = b->TryLease(KeyOf(1), "b", 10'000'000)).granted(); }));
  ASSERT_TRUE(b->PutFenced(KeyOf(1), "new", 1, next.token).ok());
  EXPECT_TRUE(absl::IsAborted(a->PutFenced(KeyOf(1), "old", 1, old.token)));
  ASSERT_TRUE(b->Flush().ok());
  EXPECT_EQ(a->Get(KeyOf(1)).entry.bytes, "new");
}

TEST_F(ClusterTest, TheQueueIsBounded) {
  state_->SetAway(true);
  ClusterOptions options{.sign = hmac_, .queue_bytes = 10'000};
  Cluster cluster(std::make_unique<FakeServer>(state_), std::move(options));
  std::atomic<int> settled{0};
  for (int i = 0; i < 20; ++i) {
    cluster.Put(std::make_shared<const Row>(MakeRow(KeyOf(i), std::string(1000, 'v'), 1, 1, 0)),
                [&](const absl::Status& status) { settled += status.ok() ? 100 : 1; });
  }
  cluster.Flush();
  EXPECT_EQ(settled, 20);
  EXPECT_GT(cluster.stats().dropped, 5);
  EXPECT_LE(cluster.stats().queued_bytes, 10'000);
}

TEST_F(ClusterTest, WithoutAKeyToSignWithNothingIsPut) {
  Cluster cluster(std::make_unique<FakeServer>(state_), {.trusted = {hmac_}});
  absl::Status settled;
  cluster.Put(std::make_shared<const Row>(MakeRow(KeyOf(1), "v", 1, 1, 0)),
              [&](const absl::Status& status) { settled = status; });
  EXPECT_TRUE(absl::IsFailedPrecondition(settled));
  EXPECT_EQ(state_->Calls(), 0);
}

// In simulated time: what a listener does with announcements, and when it asks again.
class ListenerTest : public ClusterTest {
 protected:
  ListenerTest() {
    cluster_.Listen(
        [this](const std::shared_ptr<const Row>& row) { rows_.push_back(row->semantic); });
  }
  // Another daemon puts rows; this one hears of them in one answer. Returns how long it waits
  // before it asks again.
  std::chrono::microseconds PutAndHear(int first, int n) {
    std::vector<Announcement> announced;
    for (int i = first; i < first + n; ++i) {
      other_.Put(std::make_shared<const Row>(MakeRow(KeyOf(i), "v", 1, 1, 0)), nullptr);
      EXPECT_EQ(other_.SendOne(), Cluster::Sent::kSettled);
      const MutexLock lock(state_->mu);
      announced.push_back(state_->announced.back());
    }
    return std::chrono::duration_cast<std::chrono::microseconds>(cluster_.Hear(announced) - now_);
  }
  ClusterOptions Options() {
    ClusterOptions options{.sign = hmac_, .trusted = {hmac_}};
    options.threads = false;
    options.spare_again = kAgain;
    options.now = [this] { return wall_us_; };
    options.steady = [this] { return now_; };
    return options;
  }

  static constexpr int kAgain = 64;
  int64_t wall_us_ = WallClockUs();
  // From now on each question takes so long.
  void SetDistance(std::chrono::microseconds took) {
    state_->travel = [this, took](Deadline) { return now_ += took, absl::OkStatus(); };
  }
  Deadline now_{std::chrono::seconds(1000)};
  Cluster other_{std::make_unique<FakeServer>(state_), Options()};
  Cluster cluster_{std::make_unique<FakeServer>(state_), Options()};
  std::vector<std::string> rows_;
};

TEST_F(ListenerTest, AQuietClusterIsHeardAtOnceAndABusyOneGathers) {
  using std::chrono::microseconds;
  using std::chrono::seconds;
  for (int i = 0; i < Cluster::kAnswersAtOnce; ++i) ASSERT_EQ(PutAndHear(i, 1), seconds(0)) << i;
  EXPECT_EQ(PutAndHear(500, 1), Cluster::kGather);
  now_ += Cluster::kGather;
  EXPECT_EQ(PutAndHear(501, 3), Cluster::kGather) << "three in one answer cost as much as one";
  now_ += Cluster::kGather;
  EXPECT_EQ(PutAndHear(510, static_cast<int>(SharedServer::kMostAnnouncements)), seconds(0))
      << "the answer was full, so more waits at the server";
  EXPECT_EQ(cluster_.Hear({}), now_) << "nothing was announced while it waited";
  // After a quiet time all is as before.
  now_ += Cluster::kGather * (Cluster::kAnswersAtOnce + 1);
  for (int i = 0; i < Cluster::kAnswersAtOnce; ++i) ASSERT_EQ(PutAndHear(i, 1), seconds(0)) << i;
  EXPECT_EQ(PutAndHear(500, 1), Cluster::kGather);
}

TEST_F(ListenerTest, WhatWasAskedForIsAlwaysFetchedAndTheRestWithinBounds) {
  EXPECT_EQ(cluster_.Get(KeyOf(9999)).outcome, GetOutcome::kMiss);  // now it has a use for "env"
  EXPECT_EQ(PutAndHear(0, Cluster::kSpareAtOnce - Cluster::kSpareQuiet), std::chrono::seconds(0));
  EXPECT_EQ(PutAndHear(0, Cluster::kSpareQuiet), Cluster::kGather);
  EXPECT_EQ(cluster_.stats().fetched, Cluster::kSpareAtOnce);
  Counter& counted = metrics::ClusterAnnouncements({"spared"});
  const uint64_t counted_before = counted.value();
  PutAndHear(1000, 10);
  EXPECT_EQ(cluster_.stats().fetched, Cluster::kSpareAtOnce);
  EXPECT_EQ(cluster_.stats().spared, 10);
  EXPECT_EQ(counted.value(), counted_before + 10);
  EXPECT_EQ(cluster_.Get(KeyOf(2001)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(cluster_.Get(KeyOf(2003)).outcome, GetOutcome::kMiss);
  rows_.clear();
  PutAndHear(2000, 10);
  EXPECT_EQ(rows_, (std::vector<std::string>{"graph 2001", "graph 2003"}));
  EXPECT_EQ(cluster_.stats().spared, 18);
  EXPECT_TRUE(cluster_.Get(KeyOf(1005)).outcome == GetOutcome::kHit) << "lookups find the others";
  now_ += 2 * Cluster::kSpareEvery;
  rows_.clear();
  PutAndHear(3000, 5);
  EXPECT_EQ(rows_.size(), 2u);
  rows_.clear();
  cluster_.Follow("env");
  PutAndHear(4000, 5);
  EXPECT_EQ(rows_.size(), 5u);
}

TEST_F(ListenerTest, AsksForWhatIsWantedWhileItDoesNotListen) {
  using std::chrono::seconds;
  EXPECT_EQ(cluster_.AskWanted(), now_) << "listen";
  EXPECT_EQ(cluster_.Get(KeyOf(1)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(cluster_.AskWanted(), now_) << "its announcement will come";
  PutAndHear(1, Cluster::kSpareAtOnce + 2);  // the first of them is the one that was asked for
  EXPECT_EQ(rows_.size(), static_cast<size_t>(Cluster::kSpareAtOnce) + 1);
  const Deadline again = now_ + kAgain * Cluster::kSpareEvery;
  EXPECT_EQ(cluster_.AskAt(), again);
  EXPECT_EQ(cluster_.AskWanted(), again);
  EXPECT_EQ(cluster_.Get(KeyOf(2001)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(cluster_.Get(KeyOf(2002)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(cluster_.AskAt(), now_ + seconds(1));
  EXPECT_EQ(cluster_.AskWanted(), now_ + seconds(1));
  const int before = state_->Calls();
  for (const int pause : {1, 2, 4, 8}) {
    now_ = cluster_.AskAt();
    EXPECT_EQ(cluster_.AskWanted(), now_ + seconds(pause));
  }
  EXPECT_EQ(state_->Calls(), before + 8);
  // Another daemon puts one of them, and this one the other. Nobody tells it.
  other_.Put(std::make_shared<const Row>(MakeRow(KeyOf(2001), "v", 1, 1, 0)), nullptr);
  EXPECT_EQ(other_.SendOne(), Cluster::Sent::kSettled);
  cluster_.Put(std::make_shared<const Row>(MakeRow(KeyOf(2002), "v", 1, 1, 0)), nullptr);
  now_ = cluster_.AskAt();
  EXPECT_EQ(cluster_.AskWanted(), again);
  EXPECT_EQ(rows_.back(), "graph 2001");
  now_ = again;
  EXPECT_EQ(cluster_.AskWanted(), now_) << "listen";
  EXPECT_EQ(PutAndHear(3000, kAgain), Cluster::kGather) << "a busy cluster";
  EXPECT_EQ(cluster_.AskWanted(), now_);
  PutAndHear(3500, 1);
  EXPECT_EQ(cluster_.AskWanted(), now_ + kAgain * Cluster::kSpareEvery);
}

// Quarantines must be known to all daemons, also to those that have heard too much.
TEST_F(ListenerTest, NoticesAreHeardByThoseThatDoNotListen) {
  using std::chrono::seconds;
  const auto notice = [](const std::string& job, std::string value) {
    return std::make_shared<const Row>(
        MakeRow({"quarantine", job, "jobs"}, std::move(value), 1, 1, 0));
  };
  const auto put = [](Cluster& cluster, std::shared_ptr<const Row> row) {
    cluster.Put(std::move(row), nullptr);
    EXPECT_EQ(cluster.SendOne(), Cluster::Sent::kSettled);
  };
  put(other_, notice("before anybody follows", "crashed"));  // announced as any other record
  other_.Follow("jobs");
  cluster_.Follow("jobs");
  EXPECT_EQ(cluster_.HearNotices(), now_ + Cluster::kNoticesEvery) << "nobody told of how many";
  cluster_.AskWanted();
  EXPECT_EQ(cluster_.HearNotices(), now_ + std::chrono::milliseconds(2000) * 88 / 96);
  EXPECT_EQ(cluster_.Get(KeyOf(1)).outcome, GetOutcome::kMiss);
  PutAndHear(1, Cluster::kSpareAtOnce + 2);
  EXPECT_GT(cluster_.AskWanted(), now_) << "it does not listen";
  rows_.clear();
  for (const char* job : {"a", "b"}) put(other_, notice(job, "crashed"));
  const int before = state_->Calls();
  EXPECT_GT(cluster_.HearNotices(), now_) << "not due yet";
  EXPECT_TRUE(rows_.empty());
  now_ += Cluster::kNoticesEvery;
  cluster_.HearNotices();
  EXPECT_EQ(rows_, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(state_->Calls(), before) << "an announcement holds the record";
  // Its own notices come back, and those of an environment that it does not follow.
  now_ += Cluster::kNoticesEvery;
  put(cluster_, notice("its own", "crashed"));
  other_.Follow("env");
  put(other_, std::make_shared<const Row>(MakeRow(KeyOf(7), "v", 1, 1, 0)));
  EXPECT_EQ(Notices(), 4u);
  // A large one is announced as any other record. It can be compressed by little.
  std::string large;
  for (int i = 0; i < 500; ++i) large += HashBytes(Cat(i)).view();
  put(other_, notice("too large", large));
  EXPECT_EQ(Notices(), 4u);
  cluster_.HearNotices();
  EXPECT_EQ(rows_.size(), 2u);
}

TEST_F(ListenerTest, NoticesAreCheckedAndTooManyOfThemWait) {
  const Deadline begin = now_;
  cluster_.Follow("jobs");
  cluster_.AskWanted();
  cluster_.HearNotices();
  const Row row = MakeRow({"quarantine", "job", "jobs"}, "crashed", 1, 1, 0);
  const Announcement what{cache::KeyOf(row).address(), "quarantine", HashBytes("jobs"),
                          WriteRecord(row, other_hmac_)};
  const auto announce = [&](const Announcement& one, size_t n) {
    const MutexLock lock(state_->mu);
    state_->notices.insert(state_->notices.end(), n, one);
  };
  announce(what, 1);
  now_ += Cluster::kNoticesEvery;
  cluster_.HearNotices();
  EXPECT_TRUE(rows_.empty());
  EXPECT_EQ(cluster_.stats().refused[static_cast<size_t>(RecordFault::kUnknownKey)], 1);
  Announcement good = what;
  good.record = WriteRecord(row, hmac_);
  announce(good, 2000);
  now_ += Cluster::kNoticesEvery;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(cluster_.HearNotices(), now_) << i;
  const Deadline next = cluster_.HearNotices();
  EXPECT_EQ(rows_.size(), 1280u);
  EXPECT_EQ(next, now_ + 256 * Cluster::kNoticePause);
  state_->daemons = 50'000;
  ASSERT_TRUE(cluster_.server()->AskKeysAge(now_).ok());
  now_ = next;
  const Deadline calm = begin + Cluster::kNoticesCalm * 88 / 96;
  EXPECT_EQ(cluster_.HearNotices(), calm) << "of 50,000 daemons that began together";
  now_ = calm;
  const auto pause = (25 * 256 - Cluster::kNoticesAtOnce) * Cluster::kNoticePause;
  EXPECT_EQ(cluster_.HearNotices(), now_ + pause) << "each of 50,000 daemons takes few";
  state_->SetAway(true);
  now_ += pause;
  EXPECT_EQ(cluster_.HearNotices(), now_ + Cluster::kNoticesEvery);
}

// What costs one in a small cluster costs 25 with 50,000 daemons.
TEST_F(ListenerTest, ALargeClusterHearsLess) {
  using std::chrono::milliseconds;
  state_->daemons = 50'000;
  EXPECT_EQ(cluster_.ListenWait(), Cluster::kListenWait) << "nobody has told how many there are";
  EXPECT_EQ(cluster_.AskWanted(), now_) << "listen";
  EXPECT_EQ(cluster_.ListenWait(), milliseconds(0));
  constexpr milliseconds kGather = milliseconds(5000) * (24 + kAgain) / 96;
  EXPECT_EQ(cluster_.Hear({}) - now_, kGather);
  EXPECT_EQ(cluster_.Get(KeyOf(9999)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(PutAndHear(0, 15), kGather);
  EXPECT_EQ(rows_.size(), 15u);
  EXPECT_EQ(cluster_.AskWanted(), now_);
  // There are 512 - 15 * 25 = 137 left, for five of these.
  PutAndHear(100, 10);
  EXPECT_EQ(rows_.size(), 20u);
  EXPECT_EQ(cluster_.stats().spared, 5);
  EXPECT_GT(cluster_.AskWanted(), now_) << "it does not listen";
}

TEST_F(ListenerTest, WhatNobodyHereUsesCostsAListenerOfALargeCluster) {
  const std::vector<Announcement> foreign(100,
                                          {HashBytes("it"), "kernel", HashBytes("foreign"), {}});
  for (int i = 0; i < 100; ++i) cluster_.Hear(foreign);
  EXPECT_EQ(cluster_.AskWanted(), now_) << "a small cluster: listen";
  state_->daemons = 50'000;
  ASSERT_TRUE(cluster_.server()->AskKeysAge(now_).ok());
  // Each answer of 100 costs 100 * 24 / 32 = 75 of 512.
  for (int i = 0; i < 6; ++i) {
    cluster_.Hear(foreign);
    EXPECT_EQ(cluster_.AskWanted(), now_) << i;
  }
  cluster_.Hear(foreign);
  EXPECT_GT(cluster_.AskWanted(), now_);
  EXPECT_EQ(cluster_.stats().fetched, 0);
}

TEST(WantedTest, IsForgottenAfterTenMinutes) {
  Wanted wanted;
  const Deadline begin{std::chrono::seconds(50)};
  const Digest one = HashBytes("one"), two = HashBytes("two");
  wanted.Add(one, begin);
  wanted.Add(two, begin + std::chrono::minutes(1));
  EXPECT_EQ(wanted.NextOr(Deadline::max()), begin + Wanted::kFirstPause);
  EXPECT_TRUE(wanted.TakeDue(begin).empty());
  EXPECT_EQ(wanted.TakeDue(begin + Wanted::kFor).size(), 2u);
  EXPECT_EQ(wanted.TakeDue(begin + 2 * Wanted::kFor).size(), 0u) << "both are too old";
  EXPECT_FALSE(wanted.Remove(two));
  EXPECT_EQ(wanted.NextOr(begin), begin);
}

// A token in the far future would keep all later values out.
TEST_F(ClusterTest, AnImpossibleTokenOfTheServerIsNotBelieved) {
  state_->granted = std::numeric_limits<int64_t>::max() - 7;
  const auto store = Open(), other = Open();
  const LeaseResult lease = store->TryLease(KeyOf(1), "me", 10'000'000);
  ASSERT_TRUE(lease.granted()) << "of this machine";
  EXPECT_TRUE(IsPlausibleToken(lease.token, WallClockUs()));
  ASSERT_TRUE(store->PutFenced(KeyOf(1), "first", 1, lease.token).ok());
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_TRUE(store->maybe_cluster()->server()->reachable())
      << "it answers, and other keys are right";
  // What a daemon that believed it has signed and put is taken by nobody, and gives way.
  const Row poisoned = MakeRow(KeyOf(2), "poisoned", 1, 1, state_->granted);
  {
    const MutexLock lock(state_->mu);
    state_->records[KeyOf(2).address()] = {1, WriteRecord(poisoned, hmac_)};
  }
  EXPECT_FALSE(other->Get(KeyOf(2)).hit());
  EXPECT_EQ(Refused(*other, RecordFault::kFence), 1);
}

// Refills and searches: a server that never has had its keys for long, or says so.
TEST_F(ListenerTest, ASearchWaitsForAServerThatNeverSettlesOnlySoLong) {
  const SearchGate gate{.settle_us = 10'000'000, .alone_after_us = 600'000'000};
  state_->age_us = 1'000;
  EXPECT_TRUE(absl::IsAborted(gate.MaySearch(&cluster_)));
  wall_us_ += 599'000'000;
  EXPECT_TRUE(absl::IsAborted(gate.MaySearch(&cluster_)));
  wall_us_ += 1'000'000;
  EXPECT_TRUE(gate.MaySearch(&cluster_).ok());
  state_->age_us = 3'600'000'000;
  EXPECT_TRUE(gate.MaySearch(&cluster_).ok());
  state_->age_us = 1'000;
  EXPECT_TRUE(absl::IsAborted(gate.MaySearch(&cluster_))) << "it lost its keys now";
  state_->age_us = std::numeric_limits<int64_t>::min();
  EXPECT_TRUE(absl::IsAborted(gate.MaySearch(&cluster_)));
}

// A server that is slow is not asked for what nobody needs.
TEST_F(ListenerTest, SlowAnswersUseUpTheSpareRecords) {
  EXPECT_EQ(cluster_.Get(KeyOf(9999)).outcome, GetOutcome::kMiss);
  SetDistance(std::chrono::milliseconds(25));
  PutAndHear(0, 100);
  EXPECT_EQ(rows_.size(), 31u) << "each costs 17 of 512";
  EXPECT_EQ(cluster_.stats().spared, 69);
  SetDistance(std::chrono::milliseconds(15));
  now_ += 600 * Cluster::kSpareEvery;
  rows_.clear();
  PutAndHear(0, 100);
  EXPECT_EQ(rows_.size(), 100u);
}

// All daemons see at the same moment that the server lost its keys. Were their looks together, the
// same few would fill it each time.
TEST_F(ListenerTest, DaemonsThatWaitForARefillLookAtDifferentTimes) {
  using std::chrono::milliseconds;
  const auto open = [&](uint64_t seed) {
    return std::make_unique<Refill>(
        cluster_,
        RefillOptions{.look = milliseconds(100), .slot = 3, .seed = seed, .thread = false},
        [](const EntryQuery&) { return std::vector<EntryInfo>(); },
        [](const Digest&) { return std::optional<Row>(); });
  };
  const auto one = open(1), two = open(2);
  EXPECT_EQ(one->Look(), two->Look());
  state_->Empty();
  one->LookSoon();
  two->LookSoon();
  const LeaseResult other = state_->leases.TryLease(HashBytes("refill of the shared tier 3"),
                                                    "another daemon", 60'000'000);
  ASSERT_TRUE(other.granted());
  for (const int pause : {200, 400, 800, 800}) {
    const milliseconds first = one->Look(), second = two->Look();
    EXPECT_NE(first, second);
    for (const milliseconds p : {first, second}) {
      EXPECT_GE(p, milliseconds(pause / 2));
      EXPECT_LT(p, milliseconds(pause * 3 / 2));
    }
  }
  ASSERT_TRUE(state_->leases.Release(HashBytes("refill of the shared tier 3"), other.token).ok());
  EXPECT_EQ(one->Look(), milliseconds(800)) << "it filled the server itself";
}

// The pauses between looks at the server grow while nothing happens, and not longer.
TEST_F(ListenerTest, LooksAtTheServerBecomeRarer) {
  using std::chrono::milliseconds;
  const RefillOptions options{.look = milliseconds(100), .thread = false};
  int64_t asked = 0;
  Refill refill(
      cluster_, options,
      [&](const EntryQuery&) {
        ++asked;
        return std::vector<EntryInfo>();
      },
      [](const Digest&) { return std::optional<Row>(); });
  for (const int pause : {200, 400, 800, 800}) EXPECT_EQ(refill.Look(), milliseconds(pause));
  EXPECT_EQ(asked, 0) << "the server is old and lost nothing";
  state_->Empty();
  refill.LookSoon();
  EXPECT_EQ(refill.Look(), milliseconds(200));
  EXPECT_EQ(asked, 1);
  state_->SetAway(true);
  EXPECT_EQ(refill.Look(), milliseconds(100));
  EXPECT_EQ(refill.Look(), milliseconds(100));
  state_->SetAway(false);
  EXPECT_EQ(refill.Look(), milliseconds(200));
  state_->daemons = 5'000;
  EXPECT_EQ(refill.Look(), milliseconds(400));
  state_->SetAway(true);
  EXPECT_EQ(refill.Look(), milliseconds(500))
      << "5,000 daemons shall not ask more than 10,000 times a second";
  state_->SetAway(false);
  EXPECT_EQ(refill.Look(), milliseconds(800));
}

// A server that lost its keys gets them back before searches begin, and this takes longer in a
// large cluster.
TEST_F(ListenerTest, ALargeClusterIsSettledLater) {
  state_->age_us = 230'000'000;
  EXPECT_EQ(*cluster_.SettledUs(), 230'000'000);
  state_->daemons = 102'000;
  EXPECT_EQ(*cluster_.SettledUs(), 30'000'000);
  state_->age_us = 100'000'000;
  EXPECT_EQ(*cluster_.SettledUs(), -100'000'000);
  state_->SetAway(true);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(cluster_.SettledUs().ok());
}

// A server that lost everything gets it back, and nobody is told.
TEST_F(ClusterTest, AServerThatLostItsKeysIsFilledAgain) {
  const RefillOptions often{.look = std::chrono::milliseconds(5)};
  const auto a = Open(often), b = Open(often);
  for (int i = 0; i < 600; ++i)  // more than a page
    ASSERT_TRUE(a->Put(KeyOf(i), "value", 10).ok());
  ASSERT_TRUE(b->Put(Key("unproven", "of b alone", "env"), "value", 10).ok());
  ASSERT_TRUE(b->Put(KeyOf(1000), "value", 10).ok());
  ASSERT_TRUE(a->Flush().ok());
  ASSERT_TRUE(b->Flush().ok());
  const auto announced = [&] {
    const MutexLock lock(state_->mu);
    return state_->announced.size();
  };
  const size_t before = announced();
  state_->Empty();
  const auto has = [&](size_t n) {
    const MutexLock lock(state_->mu);
    return state_->records.size() == n;
  };
  EXPECT_TRUE(test::Eventually([&] { return has(601); }));
  EXPECT_TRUE(test::Eventually([&] {
    return a->maybe_cluster()->stats().refilled + b->maybe_cluster()->stats().refilled == 601;
  }));
  EXPECT_EQ(announced(), before);
  const auto c = Open();
  EXPECT_TRUE(c->Get(KeyOf(1000)).hit());
  EXPECT_TRUE(c->Get(KeyOf(17)).hit());
  // Away in the middle: the rest comes later.
  state_->SetAway(true);
  state_->Empty();
  EXPECT_TRUE(test::Eventually([&] { return !a->maybe_cluster()->server()->reachable(); }));
  state_->SetAway(false);
  EXPECT_TRUE(test::Eventually([&] { return has(601); }));
}

// What others put is told to those who subscribed, once it can be read.
TEST_F(ClusterTest, ArrivalsAreTold) {
  const auto a = Open(), b = Open();
  AwaitListening(*b);
  b->Get(KeyOf(7));  // b has a use for such records
  Mutex mu;
  std::vector<std::string> heard;
  {
    const Arrivals::Subscription subscription(b->arrivals(), [&](const Row& row) {
      const MutexLock lock(mu);
      heard.push_back(Cat(row.semantic, ": ", row.value));
    });
    ASSERT_TRUE(a->Put(KeyOf(1), "value", 10).ok());
    EXPECT_TRUE(test::Eventually([&] {
      const MutexLock lock(mu);
      return heard == std::vector<std::string>{"graph 1: value"};
    }));
  }
  EXPECT_EQ(b->Get(KeyOf(1)).source, Source::kMemory);
  ASSERT_TRUE(a->Put(KeyOf(2), "value", 10).ok());
  EXPECT_TRUE(test::Eventually([&] { return b->maybe_cluster()->stats().fetched == 2; }));
  EXPECT_EQ(heard.size(), 1u);
}

}  // namespace
}  // namespace uopd::cache
