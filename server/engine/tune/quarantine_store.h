// SPDX-License-Identifier: MIT
// Keeps the quarantine of a pool of workers over restarts: store "quarantine", one value per pool.
//
// The value is a list that grows at its end. If two daemons add entries at the same moment, one
// entry may be lost. That job then kills a worker once more before it is quarantined again.
// Thread-safe.
#pragma once
#include <string>
#include <vector>

#include "cache/store.h"
#include "core/base/mutex.h"
#include "server/worker/quarantine.h"

namespace uopd::engine {

class QuarantineStore {
 public:
  static constexpr size_t kMaxEntries = 4096;

  // `store` outlives this object. If there are more than `max_entries`, the oldest entries are
  // dropped.
  QuarantineStore(cache::Store& store, std::string pool, size_t max_entries = kMaxEntries);

  std::vector<worker::QuarantineEntry> Load() const;  // oldest first
  void Add(const worker::QuarantineEntry& entry) UOPD_EXCLUDES(mu_);
  void Remove(const Digest& job) UOPD_EXCLUDES(mu_);

 private:
  void Save(const std::vector<worker::QuarantineEntry>& entries) UOPD_REQUIRES(mu_);

  cache::Store& store_;
  const cache::Key key_;
  const size_t max_entries_;
  Mutex mu_;  // held from reading the list to writing it
};

}  // namespace uopd::engine
