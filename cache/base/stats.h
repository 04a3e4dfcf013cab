// SPDX-License-Identifier: MIT
// Counters of the cache, one set per store name.
//
// Counting takes no lock and uses relaxed atomics, so the values of a snapshot are not of one
// instant. Does not depend on a metrics library: exporters read Snapshot(). Store names are
// constants of the program, so the table stays small.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"

namespace uopd::cache {

struct StoreStats {
  std::atomic<int64_t> hits{0}, misses{0}, corrupt{0}, mismatches{0}, unavailable{0};
  std::atomic<int64_t> puts{0}, put_errors{0}, stale_puts{0}, evictions{0};
  std::atomic<int64_t> rows{0}, bytes{0};  // gauges; all processes that share the file together
};

struct StatsSnapshot {
  std::string store;
  int64_t hits = 0, misses = 0, corrupt = 0, mismatches = 0, unavailable = 0;
  int64_t puts = 0, put_errors = 0, stale_puts = 0, evictions = 0;
  int64_t rows = 0, bytes = 0;
  bool degraded = false;  // rows that are put now do not reach the disk
};

class StatsTable {
 public:
  // The reference is valid as long as the table lives.
  StoreStats& For(const std::string& store) UOPD_EXCLUDES(mu_);
  std::vector<StatsSnapshot> Snapshot() const UOPD_EXCLUDES(mu_);  // sorted by name
  StatsSnapshot Snapshot(const std::string& store) const UOPD_EXCLUDES(mu_);
  void set_degraded(bool degraded) { degraded_ = degraded; }
  // Sets rows and bytes of every store to zero, before a new total is written.
  void ClearGauges() UOPD_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  std::map<std::string, std::unique_ptr<StoreStats>> stores_ UOPD_GUARDED_BY(mu_);
  std::atomic<bool> degraded_{false};
};

// How often each entry of a cache was found since the process began, and what that saved.
//
// Bounded: when there are too many entries, all counts are halved and entries that reach zero are
// forgotten. So the counts of busy entries stay comparable with each other. Thread-safe.
class UseCounts {
 public:
  static constexpr size_t kMaxEntries = 65'536;

  explicit UseCounts(size_t max_entries = kMaxEntries) : max_entries_(max_entries) {}

  struct Uses {
    int64_t hits = 0;
    int64_t saved_us = 0;  // the cost of computing the value, once for each hit
  };
  void Add(const Digest& address, int64_t cost_us) UOPD_EXCLUDES(mu_);
  Uses Of(const Digest& address) const UOPD_EXCLUDES(mu_);
  // Every entry that was found, in no order.
  std::vector<std::pair<Digest, Uses>> All() const UOPD_EXCLUDES(mu_);

 private:
  const size_t max_entries_;
  mutable Mutex mu_;
  absl::flat_hash_map<Digest, Uses> counts_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
