// SPDX-License-Identifier: MIT
// KernelLimits::Of (schedule.h): the limits of a device, from its Target.
#include <algorithm>

#include "core/schedule/schedule.h"

namespace uopd::schedule {

KernelLimits KernelLimits::Of(const Target& target) {
  KernelLimits limits;
  limits.threads = std::max(target.threads, 1);
  // A device may lower the scheduler's limit, but not raise it: larger kernels are no better.
  if (target.max_buffers > 0) limits.max_buffers = std::min(limits.max_buffers, target.max_buffers);
  limits.cache_bytes = target.OwnCacheBytes();
  return limits;
}

}  // namespace uopd::schedule
