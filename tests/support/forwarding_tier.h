// SPDX-License-Identifier: MIT
// ForwardingTier: a cache tier that forwards every call to another tier. Tests derive from it and
// override the calls whose results they change.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cache/memory/memory_leases.h"
#include "cache/store.h"

namespace uopd::cache {

class ForwardingTier : public Tier {
 public:
  explicit ForwardingTier(Tier& inner) : inner_(inner) {}  // `inner` outlives the tier

  GetResult Get(const Key& key) override { return inner_.Get(key); }
  bool Contains(const Digest& address) override { return inner_.Contains(address); }
  absl::Status Put(const Digest& address, std::shared_ptr<const Row> row,
                   Settled settled) override {
    return inner_.Put(address, std::move(row), std::move(settled));
  }
  void Erase(const Digest& address) override { inner_.Erase(address); }
  absl::Status Flush() override { return inner_.Flush(); }
  absl::StatusOr<std::vector<Usage>> ReadUsage() override { return inner_.ReadUsage(); }
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) override {
    return inner_.List(store, limit);
  }
  std::optional<Key> KeyOf(const Digest& address) override { return inner_.KeyOf(address); }
  absl::Status Clear(const std::string& store) override { return inner_.Clear(store); }
  absl::StatusOr<std::vector<EntryInfo>> Select(const EntryQuery& query) override {
    return inner_.Select(query);
  }
  absl::StatusOr<std::optional<Row>> ReadRow(const Digest& address) override {
    return inner_.ReadRow(address);
  }
  absl::StatusOr<int64_t> Remove(std::span<const Digest> addresses) override {
    return inner_.Remove(addresses);
  }
  absl::Status SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) override {
    return inner_.SetPinned(address, pinned, max_pinned_bytes);
  }
  void SetMaxBytes(int64_t max_bytes) override { inner_.SetMaxBytes(max_bytes); }
  int64_t max_bytes() const override { return inner_.max_bytes(); }
  Health health() const override { return inner_.health(); }

 private:
  Tier& inner_;
};

// A store with this tier only and with leases in memory.
inline std::unique_ptr<Store> StoreOf(std::unique_ptr<Tier> tier) {
  std::vector<std::unique_ptr<Tier>> tiers;
  tiers.push_back(std::move(tier));
  return std::make_unique<Store>(std::make_unique<StatsTable>(), std::move(tiers),
                                 std::make_unique<MemoryLeases>());
}

}  // namespace uopd::cache
