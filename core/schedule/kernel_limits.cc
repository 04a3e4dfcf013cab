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
  for (const MatrixInstruction& i : target.matrix_instructions) {
    // A byte of either sign can be a factor of an instruction for the other (codegen's TC).
    const bool bytes = i.a == DtypeNumber::U8 || i.a == DtypeNumber::I8;
    limits.factors.Add(i.a);
    limits.factors.Add(i.b);
    if (bytes) limits.factors.Add(i.a == DtypeNumber::U8 ? DtypeNumber::I8 : DtypeNumber::U8);
  }
  return limits;
}

}  // namespace uopd::schedule
