// SPDX-License-Identifier: MIT
#include "cache/memory/memory_tier.h"

#include <map>

#include "cache/base/lease/tokens.h"
#include "cache/base/row/eviction.h"
#include "core/base/status.h"
#include "core/base/telemetry/metrics.h"

namespace uopd::cache {

void MemoryTable::Remove(Slots::iterator it) {
  by_score_.erase({it->second.score, it->first});
  bytes_ -= SizeOf(*it->second.row);
  slots_.erase(it);
}

void MemoryTable::SetMaxBytes(int64_t max_bytes) {
  MutexLock lock(mu_);
  max_bytes_ = max_bytes;
}

int64_t MemoryTable::max_bytes() const {
  MutexLock lock(mu_);
  return max_bytes_;
}

std::shared_ptr<const Row> MemoryTable::Find(const Digest& address, int64_t now_us) {
  MutexLock lock(mu_);
  auto it = slots_.find(address);
  if (it == slots_.end()) return nullptr;
  Slot& slot = it->second;
  by_score_.erase({slot.score, address});
  slot.last_used_us = now_us;
  slot.score = KeepScore(now_us, slot.row->cost_us, SizeOf(*slot.row));
  if (!slot.pinned) by_score_.insert({slot.score, address});
  return slot.row;
}

bool MemoryTable::Contains(const Digest& address) const {
  MutexLock lock(mu_);
  return slots_.contains(address);
}

absl::StatusOr<std::vector<std::string>> MemoryTable::Insert(const Digest& address,
                                                             std::shared_ptr<const Row> row) {
  const int64_t size = SizeOf(*row);
  MutexLock lock(mu_);
  if (size > max_bytes_ / 2) {
    return absl::ResourceExhaustedError("The entry is larger than half of the memory cache");
  }
  bool pinned = false;
  if (auto it = slots_.find(address); it != slots_.end()) {
    if (KeepsOut(it->second.row->fence, row->fence, WallClockUs()))
      return absl::AbortedError("The entry there has a greater fence");
    pinned = it->second.pinned;
    Remove(it);
  }
  std::vector<std::string> evicted;
  while (bytes_ + size > max_bytes_) {
    if (by_score_.empty()) return absl::ResourceExhaustedError("What is in memory is pinned");
    auto victim = slots_.find(by_score_.begin()->second);
    evicted.push_back(victim->second.row->store);
    Remove(victim);
  }
  const int64_t score = KeepScore(row->last_used_us, row->cost_us, size);
  if (!pinned) by_score_.insert({score, address});
  bytes_ += size;
  const int64_t last_used_us = row->last_used_us;
  slots_[address] = Slot{std::move(row), last_used_us, score, pinned};
  return evicted;
}

void MemoryTable::Erase(const Digest& address) {
  MutexLock lock(mu_);
  if (auto it = slots_.find(address); it != slots_.end()) Remove(it);
}

void MemoryTable::Clear(const std::string& store) {
  MutexLock lock(mu_);
  std::vector<Digest> gone;
  for (const auto& [address, slot] : slots_) {
    if (store.empty() || slot.row->store == store) gone.push_back(address);
  }
  for (const Digest& address : gone) Remove(slots_.find(address));
}

std::vector<Usage> MemoryTable::ReadUsage() const {
  std::map<std::string, Usage> by_store;
  {
    MutexLock lock(mu_);
    for (const auto& [address, slot] : slots_) {
      Usage& usage = by_store[slot.row->store];
      ++usage.rows;
      usage.bytes += SizeOf(*slot.row);
    }
  }
  std::vector<Usage> out;
  for (auto& [name, usage] : by_store) out.push_back({name, usage.rows, usage.bytes});
  return out;
}

std::vector<EntryInfo> MemoryTable::List(const std::string& store, int64_t limit) const {
  std::vector<EntryInfo> out;
  {
    MutexLock lock(mu_);
    for (const auto& [address, slot] : slots_) {
      if (slot.row->store != store) continue;
      out.push_back({address, store, SizeOf(*slot.row), slot.row->cost_us, slot.row->created_us,
                     slot.last_used_us});
    }
  }
  SortAndTrim(out, limit);
  return out;
}

std::vector<EntryInfo> MemoryTable::Select(const EntryQuery& query) const {
  std::vector<EntryInfo> out;
  {
    MutexLock lock(mu_);
    for (const auto& [address, slot] : slots_) {
      EntryInfo info{address,           slot.row->store,      SizeOf(*slot.row),
                     slot.row->cost_us, slot.row->created_us, slot.last_used_us,
                     slot.pinned,       slot.row->checksum,   slot.row->environment};
      if (Matches(query, info)) out.push_back(std::move(info));
    }
  }
  MakePage(query, out);
  return out;
}

std::shared_ptr<const Row> MemoryTable::Peek(const Digest& address) const {
  MutexLock lock(mu_);
  auto it = slots_.find(address);
  return it == slots_.end() ? nullptr : it->second.row;
}

int64_t MemoryTable::Remove(std::span<const Digest> addresses) {
  MutexLock lock(mu_);
  int64_t removed = 0;
  for (const Digest& address : addresses) {
    auto it = slots_.find(address);
    if (it == slots_.end()) continue;
    Remove(it);
    ++removed;
  }
  return removed;
}

absl::Status MemoryTable::SetPinned(const Digest& address, bool pinned, int64_t max_pinned_bytes) {
  MutexLock lock(mu_);
  auto it = slots_.find(address);
  if (it == slots_.end()) return absl::NotFoundError("The cache has no such entry");
  if (pinned) {
    int64_t bytes = SizeOf(*it->second.row);
    for (const auto& [other, slot] : slots_) {
      if (slot.pinned && other != address) bytes += SizeOf(*slot.row);
    }
    if (bytes > max_pinned_bytes) {
      return absl::ResourceExhaustedError("Pinned entries would have more bytes than they may");
    }
    by_score_.erase({it->second.score, address});
  } else {
    by_score_.insert({it->second.score, address});
  }
  it->second.pinned = pinned;
  return absl::OkStatus();
}

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
