// SPDX-License-Identifier: MIT
#include "core/base/work_limits.h"

#include <algorithm>
#include <utility>

namespace uopd {

absl::Status CancelledByCaller() {
  return absl::CancelledError("request was cancelled by its caller");
}

absl::Status DeadlinePassed() {
  return absl::DeadlineExceededError("deadline passed while the request was being served");
}

absl::Status WorkLimits::Check() const {
  if (IsCancelled()) return CancelledByCaller();
  if (deadline != Clock::time_point::max() && Clock::now() >= deadline) return DeadlinePassed();
  return absl::OkStatus();
}

WorkLimits::Clock::time_point WorkLimits::NextCheck() const {
  // A wait until time_point::max() overflows in some libraries.
  const auto wait = cancelled ? std::chrono::milliseconds(kPoll) : std::chrono::hours(1);
  return std::min(Clock::now() + wait, deadline);
}

WorkLimits WorkLimits::Or(std::function<bool()> ended) const {
  if (!cancelled) return {deadline, std::move(ended)};
  return {deadline, [mine = cancelled, ended = std::move(ended)] { return ended() || mine(); }};
}

}  // namespace uopd
