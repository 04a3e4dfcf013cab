// SPDX-License-Identifier: MIT
// Kernels that would take too long to compile are cut into several.
//
// The nodes of a kernel, sources first, are a line. It is cut at places at most KernelLimits apart,
// each time where what must be kept for later takes the least memory; what must be kept there is
// written to memory, by one kernel if it can be (Constraints::parts).
#pragma once
#include "core/schedule/fusion.h"

namespace uopd::schedule {

// Adds what to write, for every root that is too large.
void LimitSizes(const Fusion& fusion, const std::vector<KernelLimits>& limits,
                Constraints& constraints);

}  // namespace uopd::schedule
