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
#include <vector>

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

}  // namespace uopd::cache
