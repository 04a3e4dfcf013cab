// SPDX-License-Identifier: MIT
// The quarantine: jobs that killed a worker, by digest. These jobs are not run again.
//
// Bounded: the oldest entry is dropped for a new one. Entries with a `life` expire. The others stay
// until they are cleared. Thread-safe. Entries are plain data, so that the engine can keep them
// over a restart (it calls Add at start, and Supervisor::Options::on_quarantine reports new ones).
#pragma once
#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"

namespace uopd::worker {

struct QuarantineEntry {
  Digest job;           // JobDigest in supervisor.h
  std::string reason;   // "compile: killed its worker (SIGSEGV)"
  int64_t since_s = 0;  // seconds since the epoch, for people; 0: unknown
  // 0: the entry never expires. Otherwise the time from Add until it expires. Such an entry is not
  // stored, because the job may be innocent.
  std::chrono::seconds life{0};

  bool passing() const { return life.count() > 0; }
  bool operator==(const QuarantineEntry&) const = default;
};

class Quarantine {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Quarantine(size_t max_entries = 4096) : max_entries_(max_entries) {}

  // If the job has an entry already, its first reason stays. Exception: the old entry expires and
  // the new one does not.
  void Add(const QuarantineEntry& entry, Clock::time_point now = Clock::now()) UOPD_EXCLUDES(mu_);
  std::optional<QuarantineEntry> Find(const Digest& job, Clock::time_point now = Clock::now()) const
      UOPD_EXCLUDES(mu_);
  // Oldest first.
  std::vector<QuarantineEntry> entries(Clock::time_point now = Clock::now()) const
      UOPD_EXCLUDES(mu_);
  // False: the job has no entry.
  bool Remove(const Digest& job) UOPD_EXCLUDES(mu_);
  size_t size() const { return entries().size(); }

 private:
  struct Held {
    QuarantineEntry entry;
    Clock::time_point until;
  };

  const size_t max_entries_;
  mutable Mutex mu_;
  absl::flat_hash_map<Digest, Held> held_ UOPD_GUARDED_BY(mu_);
  std::deque<Digest> order_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::worker
