// SPDX-License-Identifier: MIT
// Keeps the quarantine of a pool of workers over restarts, and shares it with the other daemons of
// a cluster: store "quarantine", one row for each job.
//
// A row says that the job is in quarantine, or that an operator took it out again; the last word
// counts. So daemons add entries at the same time and lose none. Thread-safe.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache/store.h"
#include "server/worker/quarantine.h"

namespace uopd::engine {

class QuarantineStore {
 public:
  static constexpr size_t kMaxEntries = 4096;

  // `store` outlives this object. Of more than `max_entries` the newest are loaded.
  QuarantineStore(cache::Store& store, std::string pool, size_t max_entries = kMaxEntries);

  std::vector<worker::QuarantineEntry> Load() const;  // oldest first
  void Add(const worker::QuarantineEntry& entry);
  void Remove(const Digest& job);
  // Whether a daemon of the cluster put the job into quarantine; asks its server. nullopt without a
  // cluster: Load has all of them.
  std::optional<worker::QuarantineEntry> FindInCluster(const Digest& job) const;

  // What other daemons of the cluster add and remove, as long as the returned object lives. The
  // functions are called on a thread of the cache, and must be short.
  [[nodiscard]] std::unique_ptr<cache::Arrivals::Subscription> Follow(
      std::function<void(const worker::QuarantineEntry&)> on_added,
      std::function<void(const Digest&)> on_removed) const;

 private:
  struct Change {
    worker::QuarantineEntry entry;
    bool removed = false;
  };
  cache::Key KeyOf(const Digest& job) const;
  // nullopt: the row is of another pool, or damaged.
  std::optional<Change> Read(std::string_view semantic, std::string_view value) const;
  void Put(const Change& change);

  cache::Store& store_;
  const std::string pool_;
  const size_t max_entries_;
};

}  // namespace uopd::engine
