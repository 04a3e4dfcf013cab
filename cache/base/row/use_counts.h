// SPDX-License-Identifier: MIT
// How often each entry of a cache was found since the process began, and what that saved.
//
// Bounded: when there are too many entries, all counts are halved and entries that reach zero are forgotten. So the counts
// of busy entries stay comparable with each other. Thread-safe.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"

namespace uopd::cache {

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
