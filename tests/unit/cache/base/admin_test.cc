// SPDX-License-Identifier: MIT
// What operators do with the entries of a store: pages, reading, removing, pinning; on disk and in
// memory.
#include <random>
#include <set>

#include "cache/base/row/entries.h"
#include "cache/base/stats.h"
#include "cache/memory/memory_leases.h"
#include "cache/memory/memory_tier.h"
#include "cache/sqlite/database.h"
#include "tests/unit/cache/fixture.h"

namespace uopd::cache {
namespace {

TEST(EntriesTest, RangesOfPrefixes) {
  const auto all = RangeOf("");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->first, Digest());
  EXPECT_EQ(all->last.Hex(), std::string(64, 'f'));
  EXPECT_EQ(RangeOf("a7c")->first.Hex(), "a7c" + std::string(61, '0'));
  EXPECT_EQ(RangeOf("a7c")->last.Hex(), "a7c" + std::string(61, 'f'));
  const std::string whole = HashBytes("x").Hex();
  EXPECT_EQ(RangeOf(whole)->first, HashBytes("x"));
  EXPECT_EQ(RangeOf(whole)->last, HashBytes("x"));
  EXPECT_FALSE(RangeOf(whole + "0"));
  EXPECT_FALSE(RangeOf("A"));
  EXPECT_FALSE(RangeOf("g"));
}

TEST(UseCountsTest, StayBoundedAndKeepTheBusyOnes) {
  UseCounts uses(8);
  for (int i = 0; i < 100; ++i) uses.Add(HashBytes("busy"), 5);
  for (int i = 0; i < 30; ++i) uses.Add(HashBytes(std::to_string(i)), 5);
  EXPECT_LE(uses.All().size(), 8u);
  EXPECT_GT(uses.Of(HashBytes("busy")).hits, 1);
  EXPECT_EQ(uses.Of(HashBytes("29")).hits, 1);
  EXPECT_EQ(uses.Of(HashBytes("29")).saved_us, 5);
  EXPECT_EQ(uses.Of(HashBytes("nothing")).hits, 0);
}

// Each test runs on a store with a file and on one in memory.
class AdminTest : public StoreFixture, public ::testing::WithParamInterface<bool> {
 protected:
  AdminTest() { Reopen(); }
  void Reopen(int64_t max_bytes = int64_t{4} << 30) {
    store_ = nullptr;
    options_.max_bytes = max_bytes;
    store_ =
        GetParam() ? Open() : std::make_unique<Store>(max_bytes, [this] { return now_us_.load(); });
  }
  std::vector<EntryInfo> All(EntryQuery query) {
    std::vector<EntryInfo> out;
    for (;;) {
      auto page = store_->Select(query);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->empty()) return out;
      EXPECT_LE(static_cast<int64_t>(page->size()), query.limit);
      query.after = {OrderValue(page->back(), query.order), page->back().address};
      out.insert(out.end(), page->begin(), page->end());
    }
  }
  int64_t Rows() { return static_cast<int64_t>(All({}).size()); }

  std::unique_ptr<Store> store_;
};
INSTANTIATE_TEST_SUITE_P(Places, AdminTest, ::testing::Values(true, false),
                         [](const auto& info) { return info.param ? "file" : "memory"; });

// Against a plain sort and filter of the same entries.
TEST_P(AdminTest, PagesListEveryEntryOnceInOrder) {
  std::mt19937 random(7);  // NOLINT: a fixed seed
  std::vector<EntryInfo> want;
  for (int i = 0; i < 60; ++i) {
    const Key key(i % 3 == 0 ? "tuning" : "kernel", "graph " + std::to_string(i),
                  i % 2 == 0 ? "arch=a x=1" : "arch=b x=1");
    // Few different values, so that the address decides often.
    const std::string value(random() % 3 * 100, 'v');
    const auto cost_us = static_cast<int64_t>(random() % 3);
    now_us_ += static_cast<int64_t>(random() % 2);
    ASSERT_TRUE(store_->Put(key, value, cost_us).ok());
    const Row row = MakeRow(key, value, cost_us, now_us_, 0);
    want.push_back({key.address(), key.store(), SizeOf(row), cost_us, now_us_, now_us_, false,
                    row.checksum, key.environment()});
  }
  for (int i : {3, 4, 40}) {
    ASSERT_TRUE(store_->SetPinned(want[static_cast<size_t>(i)].address, true, 1 << 20).ok());
    want[static_cast<size_t>(i)].pinned = true;
  }
  std::vector<EntryFilter> filters(6);
  filters[1].store = "tuning";
  filters[2].environment = "arch=b";
  filters[3].pinned_only = true;
  filters[4].key_prefix = want[5].address.Hex().substr(0, 1);
  filters[5].unused_since_us = want[30].last_used_us;
  for (const EntryFilter& filter : filters) {
    for (EntryOrder order : {EntryOrder::kLastUsed, EntryOrder::kBytes, EntryOrder::kCost,
                             EntryOrder::kCreated, EntryOrder::kKey}) {
      EntryQuery query{.filter = filter, .order = order, .limit = 7};
      std::vector<EntryInfo> expected;
      for (const EntryInfo& info : want) {
        const bool fits = (filter.store.empty() || info.store == filter.store) &&
                          info.environment.find(filter.environment) != std::string::npos &&
                          (!filter.pinned_only || info.pinned) &&
                          info.address.Hex().starts_with(filter.key_prefix) &&
                          info.last_used_us < filter.unused_since_us;
        if (fits) expected.push_back(info);
      }
      std::ranges::sort(expected, [&](const EntryInfo& a, const EntryInfo& b) {
        return std::pair(-OrderValue(a, order), a.address) <
               std::pair(-OrderValue(b, order), b.address);
      });
      const std::vector<EntryInfo> got = All(query);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].address, expected[i].address);
        EXPECT_EQ(got[i].store, expected[i].store);
        EXPECT_EQ(got[i].bytes, expected[i].bytes);
        EXPECT_EQ(got[i].pinned, expected[i].pinned);
        EXPECT_EQ(got[i].checksum, expected[i].checksum);
        EXPECT_EQ(got[i].environment, expected[i].environment);
      }
    }
  }
  EXPECT_FALSE(store_->Select({.filter = {.key_prefix = "xyz"}}).ok() && GetParam());
}

TEST_P(AdminTest, ReadsAndRemovesWithoutCountingLookups) {
  Fill(*store_, 5);
  const auto row = store_->ReadRow(KeyOf(2).address());
  ASSERT_TRUE(row.ok() && row->has_value());
  EXPECT_EQ((*row)->value, ValueOf(2));
  EXPECT_EQ(Checksum(**row), (*row)->checksum);
  EXPECT_FALSE(store_->ReadRow(KeyOf(9).address())->has_value());
  const Digest gone[] = {KeyOf(1).address(), KeyOf(2).address(), KeyOf(9).address()};
  EXPECT_EQ(*store_->Remove(gone), 2);
  EXPECT_EQ(*store_->Remove(gone), 0);
  EXPECT_EQ(Rows(), 3);
  EXPECT_EQ(store_->ReadUsage()->at(0).rows, 3);
  EXPECT_EQ(store_->stats().Snapshot("kernel").hits, 0);
  EXPECT_EQ(store_->Get(KeyOf(3)).entry.bytes, ValueOf(3));
  EXPECT_EQ(store_->uses().Of(KeyOf(3).address()).hits, 1);
}

TEST_P(AdminTest, PinnedEntriesOutliveEvictionAndCannotFillTheCache) {
  constexpr int64_t kMax = int64_t{1} << 20, kShare = kMax / 4;
  Reopen(kMax);
  Fill(*store_, 20, 20'000);
  EXPECT_TRUE(absl::IsNotFound(store_->SetPinned(KeyOf(99).address(), true, kShare)));
  int pinned = 0;
  absl::Status status;
  for (; pinned < 20; ++pinned) {
    now_us_ += 1;
    status = store_->SetPinned(KeyOf(pinned).address(), true, kShare);
    if (!status.ok()) break;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_GE(pinned, 9);
  ASSERT_TRUE(store_->SetPinned(KeyOf(0).address(), true, kShare).ok());  // again: no change
  // Far more than fits goes through the cache; the pinned ones are the oldest.
  for (int i = 100; i < 300; ++i) {
    now_us_ += 3'600'000'000;
    ASSERT_TRUE(store_->Put(KeyOf(i), ValueOf(i, 20'000), 100).ok());
  }
  ASSERT_TRUE(store_->Flush().ok());
  for (int i = 0; i < pinned; ++i) EXPECT_EQ(store_->Get(KeyOf(i)).entry.bytes, ValueOf(i, 20'000));
  EXPECT_FALSE(store_->Get(KeyOf(100)).hit());
  EXPECT_EQ(static_cast<int>(All({.filter = {.pinned_only = true}}).size()), pinned);
  // A new value keeps the pin.
  ASSERT_TRUE(store_->Put(KeyOf(0), ValueOf(7, 20'000), 100).ok());
  EXPECT_EQ(static_cast<int>(All({.filter = {.pinned_only = true}}).size()), pinned);
  // Without its pin an entry goes.
  ASSERT_TRUE(store_->SetPinned(KeyOf(1).address(), false, kShare).ok());
  for (int i = 300; i < 500; ++i) {
    now_us_ += 3'600'000'000;
    ASSERT_TRUE(store_->Put(KeyOf(i), ValueOf(i, 20'000), 100).ok());
  }
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_FALSE(store_->Get(KeyOf(1)).hit());
  EXPECT_TRUE(store_->Get(KeyOf(2)).hit());
  // A pin ends with its entry.
  const Digest gone[] = {KeyOf(2).address()};
  EXPECT_EQ(*store_->Remove(gone), 1);
  ASSERT_TRUE(store_->Put(KeyOf(2), ValueOf(2), 1).ok());
  EXPECT_FALSE(All({.filter = {.key_prefix = KeyOf(2).address().Hex()}})[0].pinned);
}

TEST_P(AdminTest, AnImportedRowKeepsItsTimesAndItsFence) {
  Row row = MakeRow(KeyOf(1), ValueOf(1), 77, 12345, 9);
  ASSERT_TRUE(store_->Import(row).ok());
  ASSERT_TRUE(store_->Flush().ok());
  const auto kept = store_->ReadRow(KeyOf(1).address());
  ASSERT_TRUE(kept.ok() && kept->has_value());
  EXPECT_EQ((*kept)->created_us, 12345);
  EXPECT_EQ((*kept)->fence, 9);
  EXPECT_EQ((*kept)->last_used_us, now_us_);
  EXPECT_EQ(Checksum(**kept), (*kept)->checksum);
  EXPECT_EQ(store_->Get(KeyOf(1)).entry.bytes, ValueOf(1));
}

class PinFileTest : public StoreFixture {};

TEST_F(PinFileTest, PinsSurviveARestartAndALowerLimit) {
  {
    auto store = Open();
    Fill(*store, 10, 100'000);
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(store->SetPinned(KeyOf(i).address(), true, int64_t{1} << 30).ok());
  }
  options_.max_bytes = 200'000;  // less than what is pinned
  auto store = Open();
  ASSERT_TRUE(store->Put(KeyOf(50), ValueOf(50, 10), 1).ok());
  ASSERT_TRUE(store->Flush().ok());
  EXPECT_EQ(store->state(), State::kOk) << store->health().reason;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(store->Get(KeyOf(i)).hit());
  EXPECT_FALSE(store->Get(KeyOf(5)).hit());
  EXPECT_EQ(store->Select({.filter = {.pinned_only = true}})->size(), 3u);
}

TEST_F(PinFileTest, Version3HasNoPinsAndGetsThem) {
  {
    auto store = Open();
    Fill(*store, 3);
  }
  {
    // The file as version 3 left it.
    auto db = sqlite::Database::Open(path(), {});
    ASSERT_TRUE(db.ok());
    ASSERT_TRUE(
        (*db)
            ->Execute("DROP TABLE pin; DROP TRIGGER entry_removed;"
                      "CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN"
                      "  UPDATE usage SET row_count = row_count - 1, bytes = bytes - old.size"
                      "  WHERE store = old.store; END;"
                      "PRAGMA user_version=3")
            .ok());
  }
  auto store = Open();
  EXPECT_EQ(store->state(), State::kOk);
  EXPECT_EQ(store->health().reason, "The cache file was brought from version 3 to version 4");
  EXPECT_EQ(store->Get(KeyOf(2)).entry.bytes, ValueOf(2));
  ASSERT_TRUE(store->SetPinned(KeyOf(2).address(), true, 1 << 20).ok());
  const Digest gone[] = {KeyOf(2).address(), KeyOf(1).address()};
  EXPECT_EQ(*store->Remove(gone), 2);
  EXPECT_EQ(store->ReadUsage()->at(0).rows, 1);
  ASSERT_TRUE(store->Put(KeyOf(2), ValueOf(2), 1).ok());
  EXPECT_TRUE(store->Select({.filter = {.pinned_only = true}})->empty());
}

// Two tiers that share addresses, as a file that is only read and the memory behind it do.
TEST(AdminOfTwoTiers, ListsAnEntryOnceAsTheFirstTierHasIt) {
  constexpr int kEntries = 40;
  auto stats = std::make_unique<StatsTable>();
  std::vector<std::unique_ptr<Tier>> tiers;
  for (int i = 0; i < 2; ++i)
    tiers.push_back(std::make_unique<MemoryTier>(4 << 20, WallClockUs, *stats));
  std::vector<EntryInfo> want;
  const auto put = [&](size_t tier, int i, int64_t at_us) {
    const Row row = MakeRow(Key("kernel", "graph " + std::to_string(i), "env"),
                            std::string(static_cast<size_t>(at_us) % 7, 'v'), at_us % 5, at_us, 0);
    ASSERT_TRUE(
        tiers[tier]->Put(KeyOf(row).address(), std::make_shared<const Row>(row), nullptr).ok());
    if (tier == 0 || i >= kEntries / 2)
      want.push_back({.address = KeyOf(row).address(),
                      .bytes = SizeOf(row),
                      .cost_us = row.cost_us,
                      .created_us = at_us,
                      .last_used_us = at_us,
                      .checksum = row.checksum});
  };
  // The second tier has all, with other times and sizes; the first one half of them.
  for (int i = 0; i < kEntries / 2; ++i) put(0, i, 1000 + i * 37 % 100);
  for (int i = 0; i < kEntries; ++i) put(1, i, 1000 + i * 53 % 100);
  Store store(std::move(stats), std::move(tiers), std::make_unique<MemoryLeases>());
  for (EntryOrder order : {EntryOrder::kLastUsed, EntryOrder::kBytes, EntryOrder::kCost,
                           EntryOrder::kCreated, EntryOrder::kKey}) {
    std::ranges::sort(
        want, [&](const EntryInfo& a, const EntryInfo& b) { return ComesBefore(a, b, order); });
    for (int64_t limit : {1, 3, 20, 100}) {
      std::vector<EntryInfo> got;
      EntryQuery query{.order = order, .limit = limit};
      for (bool more = true; more;) {
        const auto page = store.Select(query);
        ASSERT_TRUE(page.ok()) << page.status();
        more = static_cast<int64_t>(page->size()) == limit;
        if (more) query.after = {OrderValue(page->back(), order), page->back().address};
        got.insert(got.end(), page->begin(), page->end());
      }
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].address, want[i].address);
        EXPECT_EQ(got[i].checksum, want[i].checksum);
      }
    }
  }
}

TEST_P(AdminTest, AValueIsReplacedUnlessANewerOneIsThere) {
  const Key key = KeyOf(1);
  ASSERT_TRUE(store_->Replace(key, "first", 1, 0).ok());
  EXPECT_EQ(store_->Get(key).entry.bytes, "first");
  // A value that was put under a lease.
  const LeaseResult lease = store_->TryLease(key, "somebody", 1'000'000);
  ASSERT_TRUE(lease.granted());
  ASSERT_TRUE(store_->PutFenced(key, "leased", 1, lease.token).ok());
  ASSERT_TRUE(store_->Flush().ok());
  const int64_t fence = store_->Get(key).entry.fence;
  ASSERT_GT(fence, 0);
  EXPECT_TRUE(absl::IsAborted(store_->Replace(key, "too old", 1, fence - 1)));
  EXPECT_EQ(store_->Get(key).entry.bytes, "leased");
  ASSERT_TRUE(store_->Replace(key, "better", 1, fence).ok());
  EXPECT_EQ(store_->Get(key).entry.bytes, "better");
  EXPECT_EQ(store_->Get(key).entry.fence, fence);
  // The next owner of a lease still decides.
  const LeaseResult next = store_->TryLease(key, "somebody", 1'000'000);
  ASSERT_TRUE(next.granted());
  ASSERT_TRUE(store_->PutFenced(key, "newest", 1, next.token).ok());
  EXPECT_TRUE(absl::IsAborted(store_->Replace(key, "late", 1, fence)));
  EXPECT_EQ(store_->Get(key).entry.bytes, "newest");
}

}  // namespace
}  // namespace uopd::cache
