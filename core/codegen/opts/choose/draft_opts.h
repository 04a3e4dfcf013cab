// SPDX-License-Identifier: MIT
// Opts for a kernel that is to be compiled quickly: those of the heuristic with small register
// tiles. The kernel is several times shorter, and so is the time to compile it.
//
// Every sum has the order that it has with the heuristic's opts (passes/sum_forms.h), so the kernel
// computes the same bits: UPCASTs, which copy output axes, become smaller, and prefetches are left
// out. Where the number of copies decides the order, loops over sums are not unrolled, or the tile
// stays as large as that needs. Kernels whose tile is longer than its axis keep their opts.
#pragma once
#include <span>
#include <vector>

#include "core/codegen/codegen.h"

namespace uopd::codegen {

// `opts` apply to the kernel. The result applies too.
std::vector<Opt> DraftOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                           std::span<const Opt> opts);

}  // namespace uopd::codegen
