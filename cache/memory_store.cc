// SPDX-License-Identifier: MIT
#include "cache/memory_store.h"

#include "core/base/status.h"

namespace uopd::cache {

GetResult MemoryStore::Get(const Key& key) {
  StoreStats& stats = stats_.For(key.store());
  const auto row = table_.Find(key.address(), now_());
  if (row == nullptr) {
    ++stats.misses;
    return {};
  }
  if (!KeyMatches(*row, key)) {
    ++stats.mismatches;
    table_.Erase(key.address());
    return {.outcome = GetOutcome::kKeyMismatch};
  }
  ++stats.hits;
  return {GetOutcome::kHit, Source::kMemory,
          Entry{row->value, row->cost_us, row->created_us, row->last_used_us, row->fence}};
}

absl::Status MemoryStore::Insert(const Key& key, Row row) {
  StoreStats& stats = stats_.For(key.store());
  auto evicted = table_.Insert(key.address(), std::make_shared<const Row>(std::move(row)));
  if (!evicted.ok()) {
    ++(absl::IsAborted(evicted.status()) ? stats.stale_puts : stats.put_errors);
    return evicted.status();
  }
  ++stats.puts;
  for (const std::string& store : *evicted) ++stats_.For(store).evictions;
  stats_.ClearGauges();
  for (const Usage& usage : table_.ReadUsage()) {
    StoreStats& of = stats_.For(usage.store);
    of.rows = usage.rows;
    of.bytes = usage.bytes;
  }
  bell_.Ring();
  return absl::OkStatus();
}

absl::Status MemoryStore::Put(const Key& key, std::string bytes, int64_t cost_us) {
  absl::Status status = Insert(key, MakeRow(key, std::move(bytes), cost_us, now_(), 0));
  return absl::IsAborted(status) ? absl::OkStatus() : status;  // a leased value stays: no failure
}

absl::Status MemoryStore::PutFenced(const Key& key, std::string bytes, int64_t cost_us,
                                    int64_t token) {
  if (absl::Status status = table_.CheckToken(key.address(), token); !status.ok()) {
    ++stats_.For(key.store()).stale_puts;
    return status;
  }
  return Insert(key, MakeRow(key, std::move(bytes), cost_us, now_(), token));
}

LeaseResult MemoryStore::TryLease(const Key& key, std::string_view owner, int64_t ttl_us) {
  return table_.TryLease(key.address(), owner, ttl_us, now_());
}

absl::Status MemoryStore::RenewLease(const Key& key, int64_t token, int64_t ttl_us) {
  return table_.RenewLease(key.address(), token, ttl_us, now_());
}

absl::Status MemoryStore::ReleaseLease(const Key& key, int64_t token) {
  UOPD_TRY(table_.ReleaseLease(key.address(), token));
  bell_.Ring();
  return absl::OkStatus();
}

WatchOutcome MemoryStore::WatchReady(const Key& key, const WaitLimits& limits) {
  return bell_.WaitFor(limits, [&](WatchOutcome* outcome) {
    *outcome = WatchOutcome::kReady;
    if (table_.Contains(key.address())) return true;
    *outcome = WatchOutcome::kLeaseFree;
    return !table_.LeaseHeld(key.address(), now_());
  });
}

std::optional<Key> MemoryStore::KeyOf(const Digest& address) {
  auto row = table_.Find(address, now_());
  return row == nullptr ? std::nullopt : std::optional(cache::KeyOf(*row));
}

absl::Status MemoryStore::Clear(const std::string& store) {
  table_.Clear(store);
  return absl::OkStatus();
}

}  // namespace uopd::cache
