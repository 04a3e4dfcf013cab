// SPDX-License-Identifier: MIT
#include "cache/base/lease/leases.h"

#include "core/base/status.h"

namespace uopd::cache {

const char* Name(LeaseOutcome outcome) {
  switch (outcome) {
    case LeaseOutcome::kGranted:
      return "granted";
    case LeaseOutcome::kBusy:
      return "busy";
    case LeaseOutcome::kUnavailable:
      return "unavailable";
  }
  UOPD_CHECK(false);
}

absl::Status LeaseLost() {
  return absl::AbortedError("The lease has expired or a newer one was granted");
}

}  // namespace uopd::cache
