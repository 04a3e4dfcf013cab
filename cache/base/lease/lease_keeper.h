// SPDX-License-Identifier: MIT
// Renews the leases of running computations, each when it is due.
//
// Thread-safe. One thread renews all of them; the first lease starts it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>
#include <vector>

#include "cache/base/lease/leases.h"
#include "cache/base/wait/wait.h"
#include "core/base/mutex.h"

namespace uopd::cache {

// When a lease is renewed, and when its owner must take it for lost. It has no thread: the keeper
// has one.
//
// lost() may be asked from any thread. Everything else belongs to the one who renews.
class KeptLease {
 public:
  // `strict`: a lease that could not be renewed for its whole time to live is lost; otherwise only
  // one that is known to be lost. A strict lease is renewed more often, so that an owner who loses
  // the server still has nearly the whole time to live.
  KeptLease(const Digest& address, int64_t token, int64_t ttl_us, bool strict, Deadline now);

  // When the next renewal is due: a third of the time to live after the one before, or a tenth of a
  // strict lease.
  Deadline due() const { return due_; }
  // Whether the lease is to be renewed now. Sets the time of the next renewal.
  bool TakeDue(Deadline now);
  // Renews the lease. `now` is read before and after the question.
  void Renew(Leases& leases, const SteadyFn& now);
  // True once somebody else may compute.
  bool lost() const { return lost_.load(); }

 private:
  const Digest address_;
  const int64_t token_, ttl_us_;
  const bool strict_;
  const Deadline::duration every_;  // a renewal
  Deadline due_;
  Deadline ends_;  // unless it is renewed
  std::atomic<bool> lost_{false};
};

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
