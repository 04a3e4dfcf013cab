// SPDX-License-Identifier: MIT
#include "cache/base/lease/kept_lease.h"

#include "core/base/telemetry/metrics.h"

namespace uopd::cache {

using std::chrono::microseconds;

KeptLease::KeptLease(const Digest& address, int64_t token, int64_t ttl_us, bool strict,
                     Deadline now)
    : address_(address),
      token_(token),
      ttl_us_(ttl_us),
      strict_(strict),
      every_(microseconds(ttl_us / (strict ? 10 : 3))),
      due_(now + every_),
      ends_(now + microseconds(ttl_us)) {}

bool KeptLease::TakeDue(Deadline now) {
  if (now < due_) return false;
  due_ = now + every_;
  return !lost();
}

void KeptLease::Renew(Leases& leases, const SteadyFn& now) {
  const Deadline asked = now();
  const absl::Status renewed = leases.Renew(address_, token_, ttl_us_);
  if (renewed.ok()) ends_ = asked + microseconds(ttl_us_);
  // UNAVAILABLE says nothing about the lease: the next renewal asks again.
  if (absl::IsAborted(renewed) || (strict_ && now() >= ends_)) {
    lost_.store(true);
    metrics::LeasesLost().Increment();
  }
}

}  // namespace uopd::cache
