// SPDX-License-Identifier: MIT
// What brings kernels below the limits of their devices: constraints on the next attempt to fuse.
#pragma once
#include "core/schedule/fusion/fusion.h"
#include "core/schedule/lowering/lowering.h"

namespace uopd::schedule {

// Divides kernels that would take too long to compile. Runs after fusing and before lowering; the
// constraints that it adds take effect in the next attempt to fuse.
//
// Algorithm: list the demands of a kernel, sources first, and divide the list into consecutive
// parts, none larger than KernelLimits. A value that one part computes and a later part uses is
// written to memory. Each part ends where these values take the fewest bytes. The values written at
// one place share a kernel if they can (Constraints::parts).
//
// Adds Constraints::parts for every root that is larger than the limits of its device (`limits`, by
// device).
void LimitSizes(const Fusion& fusion, const std::vector<KernelLimits>& limits,
                Constraints& constraints);

// Limits the number of buffers of a kernel to what its device allows. Runs on every kernel after
// lowering; the constraints that it adds take effect in the next attempt to fuse.
//
// If the kernel has more than `most` buffers, adds constraints that bring it closer to `most`. A
// kernel with several outputs is divided: each output gets a kernel of its own. In a kernel with
// one output, operands are realised: the operand then takes one buffer instead of all that it
// reads.
void LimitBuffers(const Fusion& fusion, const Kernel& kernel, size_t most,
                  Constraints& constraints);

}  // namespace uopd::schedule
