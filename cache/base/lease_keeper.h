// SPDX-License-Identifier: MIT
// Renews the leases of running computations, each after a third of its time to live.
//
// Thread-safe. One thread renews all of them; the first lease starts it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "cache/base/leases.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class LeaseKeeper {
  struct Lease {
    const Digest address;
    const int64_t token, ttl_us;
    const bool strict;
    std::chrono::steady_clock::time_point due;   // time of the next renewal; guarded by mu_
    std::chrono::steady_clock::time_point ends;  // unless it is renewed; used by the thread only
    std::atomic<bool> lost{false};
  };

 public:
  explicit LeaseKeeper(Leases& leases) : leases_(leases) {}  // `leases` outlives the keeper
  ~LeaseKeeper();
  LeaseKeeper(const LeaseKeeper&) = delete;
  LeaseKeeper& operator=(const LeaseKeeper&) = delete;

  // Renews a lease until the end of the scope. Does not release the lease. The keeper outlives the
  // scope.
  class Scope {
   public:
    // `token` 0: there is no lease, and lost() is always false. `strict`: a lease that could not be renewed for its whole
    // time to live is lost; otherwise only one that is known to be lost.
    Scope(LeaseKeeper& keeper, const Digest& address, int64_t token, int64_t ttl_us,
          bool strict = false);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // True once the lease was lost, so that somebody else may compute. May be called from any
    // thread.
    bool lost() const { return lease_ != nullptr && lease_->lost.load(); }

   private:
    LeaseKeeper& keeper_;
    std::shared_ptr<Lease> lease_;
  };

 private:
  void Add(const std::shared_ptr<Lease>& lease) UOPD_EXCLUDES(mu_);
  void Remove(const std::shared_ptr<Lease>& lease) UOPD_EXCLUDES(mu_);
  void Loop() UOPD_EXCLUDES(mu_);

  Leases& leases_;
  Mutex mu_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Lease>> kept_ UOPD_GUARDED_BY(mu_);
  uint64_t additions_ UOPD_GUARDED_BY(mu_) = 0;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
