// SPDX-License-Identifier: MIT
// Whether the heuristic computes attention by matrix instructions of warps (ONLINE and TC;
// attention/warp_rows/warp_rows.h).
//
// It does so wherever that applies and a tile of rows has work for it: both products then run at
// the speed of the instruction, and neither scores nor sums are in memory. A block of threads has
// four warps, which share the keys and values of a step, or fewer where there are few rows. A step
// has 64 keys, or fewer where there are few or registers are short; where there are many rows, a
// warp has two tiles of them and shorter steps.
#pragma once
#include <vector>

#include "core/codegen/codegen.h"

namespace uopd::codegen {

// All opts of the kernel; none: it is no such attention. REQUIRES: target.blocks. Thread-safe for
// different contexts.
std::vector<Opt> ChooseWarpRows(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
