// SPDX-License-Identifier: MIT
// KeptLease: when a lease is renewed, and when its owner must take it for lost. Without a thread (lease_keeper.h has one).
//
// lost() may be asked from any thread. Everything else belongs to the one who renews.
#pragma once
#include <atomic>

#include "cache/base/lease/leases.h"
#include "cache/base/wait/wait.h"

namespace uopd::cache {

class KeptLease {
 public:
  // `strict`: a lease that could not be renewed for its whole time to live is lost; otherwise only one that is known to be
  // lost. A strict lease is renewed more often, so that an owner who loses the server still has nearly the whole time to live.
  KeptLease(const Digest& address, int64_t token, int64_t ttl_us, bool strict, Deadline now);

  // When the next renewal is due: a third of the time to live after the one before, or a tenth of a strict lease.
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

}  // namespace uopd::cache
