// SPDX-License-Identifier: MIT
// Leases that only this process sees. Used by a store without a folder, and while the file of the
// leases cannot be used.
//
// Thread-safe.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "cache/base/blobs.h"
#include "cache/base/lease/leases.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class MemoryLeases final : public Leases {
 public:
  explicit MemoryLeases(NowFn now = WallClockUs) : now_(std::move(now)) {}

  LeaseResult TryLease(const Digest& address, std::string_view owner, int64_t ttl_us) override
      UOPD_EXCLUDES(mu_);
  absl::Status Renew(const Digest& address, int64_t token, int64_t ttl_us) override
      UOPD_EXCLUDES(mu_);
  absl::Status Release(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  absl::Status CheckNewest(const Digest& address, int64_t token) override UOPD_EXCLUDES(mu_);
  bool IsHeld(const Digest& address) override UOPD_EXCLUDES(mu_);

 private:
  struct Lease {
    std::string owner;
    int64_t token = 0, expires_us = 0;
  };
  // The lease of `token`; null if it is not the newest of the address.
  Lease* Find(const Digest& address, int64_t token) UOPD_REQUIRES(mu_);

  const NowFn now_;
  Mutex mu_;
  absl::flat_hash_map<Digest, Lease> leases_ UOPD_GUARDED_BY(mu_);
  int64_t last_token_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::cache
