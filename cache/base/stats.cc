// SPDX-License-Identifier: MIT
#include "cache/base/stats.h"

#include <algorithm>

namespace uopd::cache {
namespace {

StatsSnapshot Read(const std::string& name, const StoreStats& s, bool degraded) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.store = name,
          .hits = s.hits.load(kRelaxed),
          .misses = s.misses.load(kRelaxed),
          .corrupt = s.corrupt.load(kRelaxed),
          .mismatches = s.mismatches.load(kRelaxed),
          .unavailable = s.unavailable.load(kRelaxed),
          .puts = s.puts.load(kRelaxed),
          .put_errors = s.put_errors.load(kRelaxed),
          .stale_puts = s.stale_puts.load(kRelaxed),
          .evictions = s.evictions.load(kRelaxed),
          .rows = s.rows.load(kRelaxed),
          .bytes = s.bytes.load(kRelaxed),
          .degraded = degraded};
}

}  // namespace

StoreStats& StatsTable::For(const std::string& store) {
  MutexLock lock(mu_);
  auto& slot = stores_[store];
  if (slot == nullptr) slot = std::make_unique<StoreStats>();
  return *slot;
}

std::vector<StatsSnapshot> StatsTable::Snapshot() const {
  MutexLock lock(mu_);
  std::vector<StatsSnapshot> out;
  for (const auto& [name, stats] : stores_) out.push_back(Read(name, *stats, degraded_));
  return out;
}

StatsSnapshot StatsTable::Snapshot(const std::string& store) const {
  MutexLock lock(mu_);
  auto it = stores_.find(store);
  if (it == stores_.end()) return {.store = store, .degraded = degraded_};
  return Read(store, *it->second, degraded_);
}

void StatsTable::ClearGauges() {
  MutexLock lock(mu_);
  for (auto& [name, stats] : stores_) {
    stats->rows = 0;
    stats->bytes = 0;
  }
}

void UseCounts::Add(const Digest& address, int64_t cost_us) {
  MutexLock lock(mu_);
  // Many entries may have large counts, so this may take several rounds.
  while (counts_.size() >= max_entries_ && !counts_.contains(address)) {
    for (auto& [other, uses] : counts_) uses = {uses.hits / 2, uses.saved_us / 2};
    absl::erase_if(counts_, [](const auto& entry) { return entry.second.hits == 0; });
  }
  Uses& uses = counts_[address];
  ++uses.hits;
  uses.saved_us += std::max<int64_t>(cost_us, 0);
}

UseCounts::Uses UseCounts::Of(const Digest& address) const {
  MutexLock lock(mu_);
  const auto it = counts_.find(address);
  return it == counts_.end() ? Uses{} : it->second;
}

std::vector<std::pair<Digest, UseCounts::Uses>> UseCounts::All() const {
  MutexLock lock(mu_);
  return {counts_.begin(), counts_.end()};
}

}  // namespace uopd::cache
