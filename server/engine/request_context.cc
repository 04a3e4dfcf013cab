// SPDX-License-Identifier: MIT
#include "server/engine/request_context.h"

namespace uopd::engine {

absl::Status RequestContext::Check() const {
  if (cancelled && cancelled()) return absl::CancelledError("request was cancelled by its caller");
  if (deadline != Clock::time_point::max() && Clock::now() >= deadline) {
    return absl::DeadlineExceededError("deadline passed while the request was being served");
  }
  return absl::OkStatus();
}

}  // namespace uopd::engine
