// SPDX-License-Identifier: MIT
#include "cache/memory/memory_tier.h"

#include "core/base/telemetry/metrics.h"

namespace uopd::cache {

GetResult MemoryTier::Get(const Key& key) {
  const auto row = table_.Find(key.address(), now_());
  if (row == nullptr) return {};
  if (KeyMatches(*row, key)) return Hit(*row, Source::kMemory);
  table_.Erase(key.address());
  return {.outcome = GetOutcome::kKeyMismatch};
}

absl::Status MemoryTier::Put(const Digest& address, std::shared_ptr<const Row> row,
                             Settled settled) {
  StoreStats& stats = stats_.For(row->store);
  auto evicted = table_.Insert(address, std::move(row));
  if (absl::IsAborted(evicted.status())) {
    ++stats.stale_puts;
  } else if (!evicted.ok()) {
    return evicted.status();
  } else {
    for (const std::string& store : *evicted) {
      ++stats_.For(store).evictions;
      metrics::CacheEvictions({store}).Increment();
    }
  }
  if (settled) settled(absl::OkStatus());
  return absl::OkStatus();
}

std::optional<Key> MemoryTier::KeyOf(const Digest& address) {
  auto row = table_.Find(address, now_());
  return row == nullptr ? std::nullopt : std::optional(cache::KeyOf(*row));
}

absl::Status MemoryTier::Clear(const std::string& store) {
  table_.Clear(store);
  return absl::OkStatus();
}

}  // namespace uopd::cache
