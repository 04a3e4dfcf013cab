// SPDX-License-Identifier: MIT
// A tier that keeps its rows in memory: for a store without a folder, and for rows that the disk
// did not accept.
//
// Thread-safe. Only this process sees the rows. If there is no room, the rows of the lowest score
// are evicted (eviction.h).
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "cache/base/admin.h"
#include "cache/base/blobs.h"
#include "cache/base/stats.h"
#include "cache/base/tier.h"
#include "core/base/mutex.h"

namespace uopd::cache {

// Rows in memory, bounded in bytes.
//
// Thread-safe. Evicts by the same score as the disk (eviction.h), one row at a time, and no pinned
// row.
class MemoryTable {
 public:
  explicit MemoryTable(int64_t max_bytes) : max_bytes_(max_bytes) {}

  void SetMaxBytes(int64_t max_bytes) UOPD_EXCLUDES(mu_);  // takes effect at the next Insert
  int64_t max_bytes() const UOPD_EXCLUDES(mu_);
  std::shared_ptr<const Row> Find(const Digest& address, int64_t now_us) UOPD_EXCLUDES(mu_);
  bool Contains(const Digest& address) const UOPD_EXCLUDES(mu_);
  // Returns the stores of the rows that were evicted to make room. RESOURCE_EXHAUSTED: the row is
  // larger than half of the table. ABORTED: the row at the address has a greater fence.
  absl::StatusOr<std::vector<std::string>> Insert(const Digest& address,
                                                  std::shared_ptr<const Row> row)
      UOPD_EXCLUDES(mu_);
  void Erase(const Digest& address) UOPD_EXCLUDES(mu_);
  void Clear(const std::string& store) UOPD_EXCLUDES(mu_);  // empty: all stores

  std::vector<Usage> ReadUsage() const UOPD_EXCLUDES(mu_);
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) const UOPD_EXCLUDES(mu_);

  // As those of Admin.
  std::vector<EntryInfo> Select(const EntryQuery& query) const UOPD_EXCLUDES(mu_);
  std::shared_ptr<const Row> Peek(const Digest& address) const UOPD_EXCLUDES(mu_);  // null: none
  int64_t Remove(std::span<const Digest> addresses) UOPD_EXCLUDES(mu_);
  absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes)
      UOPD_EXCLUDES(mu_);

 private:
  struct Slot {
    std::shared_ptr<const Row> row;
    int64_t last_used_us;
    int64_t score;
    bool pinned = false;  // then it is not in by_score_
  };
  using Slots = absl::flat_hash_map<Digest, Slot>;

  void Remove(Slots::iterator it) UOPD_REQUIRES(mu_);

  mutable Mutex mu_;
  int64_t max_bytes_ UOPD_GUARDED_BY(mu_);
  Slots slots_ UOPD_GUARDED_BY(mu_);
  std::set<std::pair<int64_t, Digest>> by_score_ UOPD_GUARDED_BY(mu_);
  int64_t bytes_ UOPD_GUARDED_BY(mu_) = 0;
};

class MemoryTier final : public Tier {
 public:
  // `stats` outlives the tier.
  MemoryTier(int64_t max_bytes, NowFn now, StatsTable& stats)
      : now_(std::move(now)), stats_(stats), table_(max_bytes) {}

  GetResult Get(const Key& key) override;
  bool Contains(const Digest& address) override { return table_.Contains(address); }
  absl::Status Put(const Digest& address, std::shared_ptr<const Row> row, Settled settled) override;
  void Erase(const Digest& address) override { table_.Erase(address); }
  absl::Status Flush() override { return absl::OkStatus(); }

  absl::StatusOr<std::vector<Usage>> ReadUsage() override { return table_.ReadUsage(); }
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override {
    return table_.List(store, limit);
  }
  std::optional<Key> KeyOf(const Digest& address) override;
  absl::Status Clear(const std::string& store) override;
  absl::StatusOr<std::vector<EntryInfo>> Select(const EntryQuery& query) override {
    return table_.Select(query);
  }
  absl::StatusOr<std::optional<Row>> ReadRow(const Digest& address) override {
    const auto row = table_.Peek(address);
    return row == nullptr ? std::nullopt : std::optional(*row);
  }
  absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses) override {
    return table_.Remove(addresses);
  }
  absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) override {
    return table_.SetPinned(address, pinned, max_pinned_bytes);
  }
  void SetMaxBytes(int64_t max_bytes) override { table_.SetMaxBytes(max_bytes); }
  int64_t max_bytes() const override { return table_.max_bytes(); }
  Health health() const override { return {State::kMemory, "The cache was told to use memory"}; }

 private:
  const NowFn now_;
  StatsTable& stats_;
  MemoryTable table_;
};

}  // namespace uopd::cache
