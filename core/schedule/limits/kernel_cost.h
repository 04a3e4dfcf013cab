// SPDX-License-Identifier: MIT
// Estimates how large the kernels of a fused graph will be, before they are lowered. The size
// decides how long a kernel takes to compile; limit_size.h divides kernels that are too large.
//
// The size is a number of instructions: the lines of the kernel's kernel (core/codegen/codegen.h)
// before loops are vectorised and unrolled. Codegen does that only as long as the kernel stays
// small. docs/schedule.md, "How large a kernel may be", has the limits.
#pragma once
#include <algorithm>
#include <vector>

#include "core/schedule/fusion/fusion.h"

namespace uopd::schedule {

struct KernelSize {
  double instructions = 0;
  int loops = 0;  // not counting the loops over the output
  // The size as a fraction of the limit that it is closest to; a kernel may have at most 1.
  double Part(const KernelLimits& limits) const {
    return std::max(instructions / limits.max_instructions,
                    static_cast<double>(loops) / limits.max_loops);
  }
};

// What demand d of u adds to the size of its root, without its operands, which are demands
// themselves.
KernelSize SizeOf(const Fusion& fusion, ir::UOp u, const Demand& d);

// The sizes of all kernels, by root.
std::vector<KernelSize> SizesOf(const Fusion& fusion);

}  // namespace uopd::schedule
