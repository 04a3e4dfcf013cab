// SPDX-License-Identifier: MIT
#include "server/engine/request_context.h"

#include "core/base/interrupt.h"

namespace uopd::engine {

absl::Status RequestContext::Check() const {
  if (cancelled && cancelled()) return CancelledByCaller();
  if (deadline != Clock::time_point::max() && Clock::now() >= deadline) return DeadlinePassed();
  return absl::OkStatus();
}

}  // namespace uopd::engine
