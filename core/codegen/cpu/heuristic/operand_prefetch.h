// SPDX-License-Identifier: MIT
// PREFETCH of an operand of a matrix instruction that few tiles read, along the reduced axis.
//
// The weights of a network come from memory in every run. The first tile that reads them waits, and
// with few tiles this is a large part of the time. Processors fetch ahead of a loop that reads
// whole rows; they do not foresee one that reads a piece of each row.
#pragma once
#include <span>
#include <vector>

#include "core/codegen/codegen.h"
#include "core/codegen/cpu/heuristic/memory_opts.h"

namespace uopd::codegen {

// `axes` are those of Axes(ctx, sink), `opts` what the heuristic has chosen so far. In the order in
// which the results should be tried.
std::vector<Opt> OperandPrefetches(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                   std::span<const MemoryAxis> axes, std::span<const Opt> opts);

}  // namespace uopd::codegen
