// SPDX-License-Identifier: MIT
#include "server/engine/base/request_context.h"

#include "core/base/interrupt.h"

namespace uopd::engine {

void RequestContext::EndWith(std::shared_ptr<Cancellation> ends) {
  cancelled = [ends] { return ends->cancelled(); };
  cancellation = std::move(ends);
}

absl::Status RequestContext::Check() const {
  if (cancelled && cancelled()) return CancelledByCaller();
  if (deadline != Clock::time_point::max() && Clock::now() >= deadline) return DeadlinePassed();
  return absl::OkStatus();
}

}  // namespace uopd::engine
