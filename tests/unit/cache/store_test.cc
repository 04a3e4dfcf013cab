// SPDX-License-Identifier: MIT
#include "cache/store.h"

#include <limits>
#include <thread>

#include "cache/base/row/eviction.h"
#include "cache/sqlite/transaction.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

class StoreTest : public StoreFixture {
 protected:
  // Runs SQL on the file behind the store's back.
  void Tamper(const char* sql) {
    auto db = sqlite::Database::Open(path(), {});
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE((*db)->Execute(sql).ok());
  }
};

TEST_F(StoreTest, KeepsBytesAcrossOpens) {
  const std::string binary("\0\xff value", 8);
  {
    auto store = Open();
    EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
    EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss);
    ASSERT_TRUE(store->Put(KeyOf(1), binary, 42).ok());
    ASSERT_TRUE(store->Put(KeyOf(2), "", 0).ok());
    GetResult queued = store->Get(KeyOf(1));  // readable at once
    ASSERT_TRUE(queued.hit());
    EXPECT_EQ(queued.entry.bytes, binary);
  }
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk);
  GetResult found = store->Get(KeyOf(1));
  ASSERT_TRUE(found.hit());
  EXPECT_EQ(found.source, Source::kDisk);
  EXPECT_EQ(found.entry.bytes, binary);
  EXPECT_EQ(found.entry.cost_us, 42);
  EXPECT_EQ(found.entry.created_us, now_us_);
  EXPECT_TRUE(store->Get(KeyOf(2)).hit());
  EXPECT_EQ(store->Get(KeyOf(1, "schedule")).outcome, GetOutcome::kMiss);
  EXPECT_EQ(store->stats().Snapshot("kernel").hits, 2);
  EXPECT_EQ(store->stats().Snapshot("kernel").rows, 2);
  EXPECT_EQ(store->stats().Snapshot("schedule").misses, 1);
}

TEST_F(StoreTest, LastPutWins) {
  auto store = Open();
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(store->Put(KeyOf(1), ValueOf(i), i).ok());
  EXPECT_EQ(store->Get(KeyOf(1)).entry.bytes, ValueOf(49));
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(KeyOf(1)).entry.bytes, ValueOf(49));
  EXPECT_EQ(store->stats().Snapshot("kernel").rows, 1);
}

TEST_F(StoreTest, BadChecksumIsAMissAndHeals) {
  auto store = Open();
  Fill(*store, 2);
  Tamper("UPDATE entry SET value=x'00' WHERE semantic=CAST('graph 1' AS BLOB)");
  EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kCorrupt);
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(KeyOf(1)).outcome, GetOutcome::kMiss);  // the row is gone
  EXPECT_TRUE(store->Get(KeyOf(0)).hit());
  EXPECT_EQ(store->stats().Snapshot("kernel").corrupt, 1);
  ASSERT_TRUE(store->Put(KeyOf(1), "new", 1).ok());
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(KeyOf(1)).entry.bytes, "new");
}

TEST_F(StoreTest, RowUnderAnotherAddressIsAMismatch) {
  auto store = Open();
  Fill(*store, 1);
  // A whole row whose address is that of another key, as if two keys had one digest.
  auto db = sqlite::Database::Open(path(), {});
  ASSERT_TRUE(db.ok());
  const Key other = KeyOf(77);
  const std::string sql = "UPDATE entry SET address=x'" + other.address().Hex() + "'";
  ASSERT_TRUE((*db)->Execute(sql.c_str()).ok());
  EXPECT_EQ(store->Get(other).outcome, GetOutcome::kKeyMismatch);
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(other).outcome, GetOutcome::kMiss);
  EXPECT_EQ(store->stats().Snapshot("kernel").mismatches, 1);
}

TEST_F(StoreTest, EvictsCheapAndOldFirst) {
  options_.max_bytes = 100 * 1000;
  auto store = Open();
  ASSERT_TRUE(store->Put(KeyOf(1000), ValueOf(0), 60'000'000).ok());  // dear
  ASSERT_TRUE(store->Put(KeyOf(1001), ValueOf(0), 100).ok());         // cheap, as old
  for (int i = 0; i < 200; ++i) {
    now_us_ += 60'000'000;  // more than a few bytes of size can outweigh
    ASSERT_TRUE(store->Put(KeyOf(i), ValueOf(i), 100).ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_TRUE(store->Get(KeyOf(1000)).hit());
  EXPECT_EQ(store->Get(KeyOf(1001)).outcome, GetOutcome::kMiss);
  EXPECT_EQ(store->Get(KeyOf(0)).outcome, GetOutcome::kMiss);
  EXPECT_TRUE(store->Get(KeyOf(199)).hit());
  const StatsSnapshot stats = store->stats().Snapshot("kernel");
  EXPECT_LE(stats.bytes, options_.max_bytes);
  EXPECT_GT(stats.bytes, options_.max_bytes / 2);
  EXPECT_EQ(stats.evictions + stats.rows, 202);
  EXPECT_EQ(store->Put(KeyOf(1), ValueOf(1, 60 * 1000), 1).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(StoreTest, UseIsRecordedOnceAnHour) {
  auto store = Open();
  Fill(*store, 1);
  const int64_t start = now_us_;
  auto last_use = [&] {
    EXPECT_TRUE(store->Get(KeyOf(0)).hit());
    EXPECT_TRUE(store->Flush().ok());
    return store->List("kernel", 1).at(0).last_used_us;
  };
  now_us_ += kHourUs / 2;
  EXPECT_EQ(last_use(), start);
  now_us_ += kHourUs;
  EXPECT_EQ(last_use(), start + kHourUs + kHourUs / 2);
  EXPECT_TRUE(store->Get(KeyOf(0)).hit());  // the checksum does not cover the last use
}

TEST_F(StoreTest, ListsCountsAndClears) {
  auto store = Open();
  Fill(*store, 3);
  now_us_ += 5;
  ASSERT_TRUE(store->Put(KeyOf(9, "schedule"), "x", 7).ok());
  ASSERT_TRUE(store->Flush().ok());
  const auto usage = *store->ReadUsage();
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage[0].store, "kernel");
  EXPECT_EQ(usage[0].rows, 3);
  EXPECT_GT(usage[0].bytes, 3000);
  auto listed = store->List("schedule", 10);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].address, KeyOf(9, "schedule").address());
  EXPECT_EQ(listed[0].cost_us, 7);
  const auto key = store->KeyOf(listed[0].address);
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->semantic(), KeyOf(9, "schedule").semantic());
  EXPECT_EQ(key->environment(), KeyOf(9, "schedule").environment());
  EXPECT_FALSE(store->KeyOf(KeyOf(8, "schedule").address()).has_value());
  EXPECT_EQ(store->List("kernel", 2).size(), 2u);
  ASSERT_TRUE(store->Clear("kernel").ok());
  EXPECT_EQ(store->Get(KeyOf(0)).outcome, GetOutcome::kMiss);
  EXPECT_TRUE(store->Get(KeyOf(9, "schedule")).hit());
  EXPECT_EQ(store->stats().Snapshot("kernel").rows, 0);
  ASSERT_TRUE(store->Clear("").ok());
  EXPECT_TRUE(store->ReadUsage()->empty());
}

// What docs/operations/cache.md promises of a daemon that is killed.
TEST_F(StoreTest, APutIsWrittenSoonWithoutAFlush) {
  static_assert(QueueOptions().gather <= std::chrono::milliseconds(100));
  auto store = Open();
  auto other = Open();
  ASSERT_TRUE(store->Put(KeyOf(1), "soon", 1).ok());
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!other->Get(KeyOf(1)).hit() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::yield();
  }
  EXPECT_EQ(other->Get(KeyOf(1)).entry.bytes, "soon");
}

// A fenced value that waits to be written is not hidden by one without a fence.
TEST_F(StoreTest, AQueuedFencedValueStays) {
  GiveUpSoonOnLocks();
  auto store = Open();
  auto db = sqlite::Database::Open(path(), {});
  ASSERT_TRUE(db.ok());
  const LeaseResult lease = store->TryLease(KeyOf(1), "a", 1'000'000);
  {
    sqlite::Transaction lock(**db);
    ASSERT_TRUE(lock.Begin().ok());
    ASSERT_TRUE(store->Put(KeyOf(1), "before", 1).ok());
    ASSERT_TRUE(store->PutFenced(KeyOf(1), "fenced", 1, lease.token).ok());
    ASSERT_TRUE(store->Put(KeyOf(1), "after", 1).ok());
    EXPECT_EQ(store->Get(KeyOf(1)).entry.bytes, "fenced");
  }
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->Get(KeyOf(1)).entry.bytes, "fenced");
  EXPECT_EQ(store->stats().Snapshot("kernel").stale_puts, 1);
}

TEST_F(StoreTest, TheLimitOfBytesChangesWhileItRuns) {
  auto store = Open();
  Fill(*store, 100);
  EXPECT_GT(store->stats().Snapshot("kernel").bytes, 100'000);
  store->SetMaxBytes(50'000);
  EXPECT_EQ(store->max_bytes(), 50'000);
  ASSERT_TRUE(store->Put(KeyOf(200), ValueOf(200), 1).ok());
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_LE(store->stats().Snapshot("kernel").bytes, 50'000);
  Store memory(1 << 20);
  Fill(memory, 100);
  memory.SetMaxBytes(50'000);
  ASSERT_TRUE(memory.Put(KeyOf(200), ValueOf(200), 1).ok());
  EXPECT_LE(memory.stats().Snapshot("kernel").bytes, 50'000);
}

TEST_F(StoreTest, TwoStoresShareOneFile) {
  auto a = Open(), b = Open();
  std::thread other([&] {
    for (int i = 100; i < 200; ++i) EXPECT_TRUE(b->Put(KeyOf(i), ValueOf(i), 1).ok());
    while (!b->Flush().ok()) {
    }
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(a->Put(KeyOf(i), ValueOf(i), 1).ok());
  while (!a->Flush().ok()) {
  }
  other.join();
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(a->Get(KeyOf(i)).entry.bytes, ValueOf(i));
    EXPECT_EQ(b->Get(KeyOf(i)).entry.bytes, ValueOf(i));
  }
  EXPECT_EQ(a->ReadUsage()->at(0).rows, 200);
}

TEST_F(StoreTest, ManyThreadsReadAndWrite) {
  options_.file.max_readers = 2;
  auto store = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(store->Put(KeyOf(i + 100 * (t % 2)), ValueOf(i), 1).ok());
        GetResult found = store->Get(KeyOf(i));
        if (found.hit()) {
          EXPECT_EQ(found.entry.bytes, ValueOf(i));
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_TRUE(store->Flush().ok());
  for (int i = 0; i < 200; ++i) EXPECT_EQ(store->Get(KeyOf(i)).source, Source::kDisk);
  const StatsSnapshot stats = store->stats().Snapshot("kernel");
  EXPECT_EQ(stats.puts, 600);
  EXPECT_EQ(stats.rows, 200);
}

// A row that was put under a token near 2^63 keeps nothing out: neither in the queue, nor in the
// file, nor in memory.
TEST_F(StoreTest, ARowUnderAnImpossibleTokenGivesWay) {
  constexpr int64_t kPoison = std::numeric_limits<int64_t>::max() - 1;
  const auto replace = [&](Store& store, const char* what) {
    SCOPED_TRACE(what);
    for (const bool flushed : {false, true}) {
      const Key key = KeyOf(flushed ? 1 : 2);
      ASSERT_TRUE(store.Import(MakeRow(key, "poisoned", 1, now_us_, kPoison)).ok());
      if (flushed) {
        ASSERT_TRUE(store.Flush().ok());
      }
      const LeaseResult lease = store.TryLease(key, "me", 1'000'000);
      ASSERT_TRUE(store.PutFenced(key, "winner", 1, lease.token).ok());
      ASSERT_TRUE(store.Flush().ok());
      EXPECT_EQ(store.Get(key).entry.bytes, "winner");
      // The other way round: what is plausible still decides.
      const LeaseResult next = store.TryLease(key, "me", 1'000'000);
      ASSERT_TRUE(store.PutFenced(key, "newer", 1, next.token).ok());
      EXPECT_TRUE(absl::IsAborted(store.Replace(key, "older", 1, lease.token - 1)));
      EXPECT_EQ(store.Get(key).entry.bytes, "newer");
    }
  };
  auto store = Open();
  replace(*store, "file");
  Store memory(1 << 20, options_.now);
  replace(memory, "memory");
}

}  // namespace
}  // namespace uopd::cache
