// SPDX-License-Identifier: MIT
// Rows and leases in memory, bounded in bytes: what the cache falls back to when the disk will not
// do.
//
// Thread-safe. Evicts by the same score as the disk (eviction.h), one row at a time. Leases hold
// within this process only.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/row.h"
#include "cache/store.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class MemoryTable {
 public:
  explicit MemoryTable(int64_t max_bytes) : max_bytes_(max_bytes) {}

  std::shared_ptr<const Row> Find(const Digest& address, int64_t now_us) UOPD_EXCLUDES(mu_);
  bool Contains(const Digest& address) const UOPD_EXCLUDES(mu_);
  // Names the stores that lost a row to make room. RESOURCE_EXHAUSTED: larger than half of the
  // table. ABORTED: the row there was put under a newer lease.
  absl::StatusOr<std::vector<std::string>> Insert(const Digest& address,
                                                  std::shared_ptr<const Row> row)
      UOPD_EXCLUDES(mu_);
  void Erase(const Digest& address) UOPD_EXCLUDES(mu_);
  void Clear(const std::string& store) UOPD_EXCLUDES(mu_);  // all when empty

  LeaseResult TryLease(const Digest& address, std::string_view owner, int64_t ttl_us,
                       int64_t now_us) UOPD_EXCLUDES(mu_);
  absl::Status RenewLease(const Digest& address, int64_t token, int64_t ttl_us, int64_t now_us)
      UOPD_EXCLUDES(mu_);
  absl::Status ReleaseLease(const Digest& address, int64_t token) UOPD_EXCLUDES(mu_);
  // ABORTED unless `token` is the newest for the address.
  absl::Status CheckToken(const Digest& address, int64_t token) const UOPD_EXCLUDES(mu_);
  bool LeaseHeld(const Digest& address, int64_t now_us) const UOPD_EXCLUDES(mu_);

  std::vector<Usage> ReadUsage() const UOPD_EXCLUDES(mu_);
  std::vector<EntryInfo> List(const std::string& store, int64_t limit) const UOPD_EXCLUDES(mu_);

 private:
  struct Slot {
    std::shared_ptr<const Row> row;
    int64_t last_used_us;
    int64_t score;
  };
  struct Lease {
    std::string owner;
    int64_t token = 0, expires_us = 0;
  };
  using Slots = absl::flat_hash_map<Digest, Slot>;

  void Remove(Slots::iterator it) UOPD_REQUIRES(mu_);

  const int64_t max_bytes_;
  mutable Mutex mu_;
  Slots slots_ UOPD_GUARDED_BY(mu_);
  std::set<std::pair<int64_t, Digest>> by_score_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<Digest, Lease> leases_ UOPD_GUARDED_BY(mu_);
  int64_t bytes_ UOPD_GUARDED_BY(mu_) = 0;
  int64_t last_token_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::cache
