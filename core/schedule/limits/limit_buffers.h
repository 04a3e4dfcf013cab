// SPDX-License-Identifier: MIT
// Limits the number of buffers of a kernel to what its device allows. Runs on every kernel after
// lowering; the constraints that it adds take effect in the next attempt to fuse.
#pragma once
#include "core/schedule/fusion/fusion.h"
#include "core/schedule/lowering/lowering.h"

namespace uopd::schedule {

// If the kernel has more than `most` buffers, adds constraints that bring it closer to `most`. A
// kernel with several outputs is divided: each output gets a kernel of its own. In a kernel with
// one output, operands are realised: the operand then takes one buffer instead of all that it
// reads.
void LimitBuffers(const Fusion& fusion, const Kernel& kernel, size_t most,
                  Constraints& constraints);

}  // namespace uopd::schedule
