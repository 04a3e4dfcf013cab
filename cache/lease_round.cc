// SPDX-License-Identifier: MIT
#include "cache/lease_round.h"

#include <utility>

#include "core/base/status.h"

namespace uopd::cache {

absl::StatusOr<Round> BeginRound(Store& store, const Key& key, const LoadOptions& options) {
  if (options.may_compute) UOPD_TRY(options.may_compute());
  if (options.patient) store.leases().BePatient(key.address());
  LeaseResult lease = store.TryLease(key, options.owner, options.lease_ttl_us);
  if (lease.granted()) {
    // The owner before us may have put the value after the lookup.
    if (options.use == Use::kReadAndKeep) {
      GetResult found = store.Get(key, options.patient);
      if (found.hit()) {
        store.ReleaseLease(key, lease.token).IgnoreError();
        return Round{.step = RoundStep::kFound, .found = std::move(found)};
      }
    }
    return Round{.step = RoundStep::kCompute, .token = lease.token};
  }
  if (lease.outcome == LeaseOutcome::kBusy && options.waits_for && !options.waits_for(lease.holder))
    return Round{.step = RoundStep::kElsewhere, .holder = std::move(lease.holder)};
  // A load that replaces the value must not wait for a value: the old one exists.
  if (lease.outcome == LeaseOutcome::kUnavailable || options.use == Use::kReplace)
    return Round{.step = RoundStep::kAlone};
  return Round{.step = RoundStep::kAwait};
}

}  // namespace uopd::cache
