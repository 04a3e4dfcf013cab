// SPDX-License-Identifier: MIT
// Jobs that killed a worker, by digest: they are not run again.
//
// Bounded: the oldest entry makes room. Thread-safe. Entries are plain data, so that the engine can
// keep them over a restart (Add at start, Supervisor::Options::on_quarantine for new ones).
#pragma once
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
  Digest job;          // JobDigest in supervisor.h
  std::string reason;  // "compile: killed its worker (SIGSEGV)"
  bool operator==(const QuarantineEntry&) const = default;
};

class Quarantine {
 public:
  explicit Quarantine(size_t max_entries = 4096) : max_entries_(max_entries) {}

  // A job that is in already keeps its first reason.
  void Add(const QuarantineEntry& entry) UOPD_EXCLUDES(mu_);
  std::optional<std::string> ReasonOf(const Digest& job) const UOPD_EXCLUDES(mu_);
  std::vector<QuarantineEntry> entries() const UOPD_EXCLUDES(mu_);  // oldest first
  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  const size_t max_entries_;
  mutable Mutex mu_;
  absl::flat_hash_map<Digest, std::string> reasons_ UOPD_GUARDED_BY(mu_);
  std::deque<Digest> order_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::worker
