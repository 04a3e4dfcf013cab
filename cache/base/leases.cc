// SPDX-License-Identifier: MIT
#include "cache/base/leases.h"

namespace uopd::cache {

absl::Status LeaseLost() {
  return absl::AbortedError("The lease has expired or a newer one was granted.");
}

}  // namespace uopd::cache
