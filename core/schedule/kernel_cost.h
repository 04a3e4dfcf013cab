// SPDX-License-Identifier: MIT
// How large the kernels of a fused graph are, before they are made: what compiling them takes.
//
// The size of a kernel is in instructions: lines of its program (core/codegen/codegen.h) before
// loops are vectorised and unrolled, which codegen does only as far as the kernel stays small. What
// a compiler takes grows with that; docs/schedule.md has how much.
#pragma once
#include <algorithm>
#include <vector>

#include "core/schedule/fusion.h"

namespace uopd::schedule {

// A kernel is as large as a limit allows at 1.
struct KernelSize {
  double instructions = 0;
  int loops = 0;  // without those over the output
  double Part(const KernelLimits& limits) const {
    return std::max(instructions / limits.max_instructions,
                    static_cast<double>(loops) / limits.max_loops);
  }
};

// What demand d of u takes in its root: nothing for operands, see Operands.
KernelSize SizeOf(const Fusion& fusion, ir::UOp u, const Demand& d);

// By root.
std::vector<KernelSize> SizesOf(const Fusion& fusion);

}  // namespace uopd::schedule
