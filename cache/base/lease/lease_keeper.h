// SPDX-License-Identifier: MIT
// Renews the leases of running computations, each when it is due (kept_lease.h).
//
// Thread-safe. One thread renews all of them; the first lease starts it.
#pragma once
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "cache/base/lease/kept_lease.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class LeaseKeeper {
 public:
  explicit LeaseKeeper(Leases& leases) : leases_(leases) {}  // `leases` outlives the keeper
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Renews a lease until the end of the scope. Does not release the lease. The keeper outlives the
  // scope.
  class Scope {
   public:
    // `token` 0: there is no lease, and lost() is always false. `strict`: see KeptLease.
    Scope(LeaseKeeper& keeper, const Digest& address, int64_t token, int64_t ttl_us,
          bool strict = false);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // True once the lease was lost, so that somebody else may compute. May be called from any
    // thread.
    bool lost() const { return lease_ != nullptr && lease_->lost(); }

   private:
    LeaseKeeper& keeper_;
    std::shared_ptr<KeptLease> lease_;
  };

 private:
  void Add(const std::shared_ptr<KeptLease>& lease) UOPD_EXCLUDES(mu_);
  void Remove(const std::shared_ptr<KeptLease>& lease) UOPD_EXCLUDES(mu_);
  void Loop() UOPD_EXCLUDES(mu_);

  Leases& leases_;
  Mutex mu_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<KeptLease>> kept_ UOPD_GUARDED_BY(mu_);
  uint64_t additions_ UOPD_GUARDED_BY(mu_) = 0;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
