// SPDX-License-Identifier: MIT
// A tier that keeps its rows in memory: for a store without a folder, and for rows that the disk did
// not accept.
//
// Thread-safe. Only this process sees the rows. If there is no room, the rows of the lowest score
// are evicted (eviction.h).
#pragma once
#include "cache/base/stats.h"
#include "cache/base/tier.h"
#include "cache/memory/memory_table.h"

namespace uopd::cache {

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
