// SPDX-License-Identifier: MIT
// A Store that keeps everything in memory: for tests, for a daemon without a data folder, and as a
// front tier.
//
// Thread-safe. Always kMemory. Leases and values are seen by this process only.
#pragma once
#include "cache/bell.h"
#include "cache/memory_table.h"
#include "cache/store.h"

namespace uopd::cache {

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(int64_t max_bytes, NowFn now = WallClockUs)
      : now_(std::move(now)), table_(max_bytes) {}

  GetResult Get(const Key& key) override;
  absl::Status Put(const Key& key, std::string bytes, int64_t cost_us) override;
  absl::Status PutFenced(const Key& key, std::string bytes, int64_t cost_us,
                         int64_t token) override;
  absl::Status Flush() override { return absl::OkStatus(); }
  LeaseResult TryLease(const Key& key, std::string_view owner, int64_t ttl_us) override;
  absl::Status RenewLease(const Key& key, int64_t token, int64_t ttl_us) override;
  absl::Status ReleaseLease(const Key& key, int64_t token) override;
  WatchOutcome WatchReady(const Key& key, const WaitLimits& limits) override;
  std::vector<Usage> ReadUsage() override { return table_.ReadUsage(); }
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override {
    return table_.List(store, limit);
  }
  std::optional<Key> KeyOf(const Digest& address) override;
  absl::Status Clear(const std::string& store) override;
  Health health() const override { return {State::kMemory, "The cache was told to use memory."}; }
  const StatsTable& stats() const override { return stats_; }

 private:
  absl::Status Insert(const Key& key, Row row);

  const NowFn now_;
  MemoryTable table_;
  StatsTable stats_;
  Bell bell_;
};

}  // namespace uopd::cache
