// SPDX-License-Identifier: MIT
// Kernels that would take more buffers than a device allows.
#pragma once
#include "core/schedule/fusion.h"
#include "core/schedule/lowering.h"

namespace uopd::schedule {

// Adds what brings the kernel down to `most` buffers: outputs of their own kernels, else operands
// that are realised, each standing for the buffers below it.
void LimitBuffers(const Fusion& fusion, const Kernel& kernel, size_t most,
                  Constraints& constraints);

}  // namespace uopd::schedule
