// SPDX-License-Identifier: MIT
// KernelLimits of a device (schedule.h).
#include <algorithm>

#include "core/schedule/schedule.h"

namespace uopd::schedule {

KernelLimits KernelLimits::Of(const Target& target) {
  KernelLimits limits;
  limits.threads = std::max(target.threads, 1);
  // More than the scheduler's own limit would make no better kernels.
  if (target.max_buffers > 0) limits.max_buffers = std::min(limits.max_buffers, target.max_buffers);
  limits.cache_bytes = target.OwnCacheBytes();
  return limits;
}

}  // namespace uopd::schedule
