// SPDX-License-Identifier: MIT
// Divides kernels that would take too long to compile. Runs after fusing and before lowering; the
// constraints that it adds take effect in the next attempt to fuse.
//
// Algorithm: list the demands of a kernel, sources first, and divide the list into consecutive
// parts, none larger than KernelLimits. A value that one part computes and a later part uses is
// written to memory. Each part ends where these values take the fewest bytes. The values written at
// one place share a kernel if they can (Constraints::parts).
#pragma once
#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

// Adds Constraints::parts for every root that is larger than the limits of its device (`limits`, by
// device).
void LimitSizes(const Fusion& fusion, const std::vector<KernelLimits>& limits,
                Constraints& constraints);

}  // namespace uopd::schedule
