// SPDX-License-Identifier: MIT
// The opts of the heuristic that cut reductions into panels: BLOCK, PACK and PREFETCH.
//
// A product of few rows with a large matrix reads the matrix once, from memory. A tile reads a
// narrow strip of it, a few lines of each row, and every row is on another page: processors do not
// foresee that. A panel reads long parts of few rows, copies them, and multiplies the copy with all
// rows. The partial sums of the panel stay in a cache.
//
// The gradient of the weights of a convolution sums over images, rows and columns, and its vectors
// lie along the columns. What one tile reads is longer than the first-level cache, and the next
// tile reads most of it again. A panel is so short that it stays in that cache for all tiles that
// read it.
#pragma once
#include <span>
#include <vector>

#include "core/codegen/cpu/heuristic/memory_opts.h"

namespace uopd::codegen {

// To be applied in this order, all of them or none; empty if the kernel is no such product. `axes`
// are those of Axes(ctx, sink). REQUIRES: the kernel has no TC.
std::vector<Opt> PanelOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                           std::span<const MemoryAxis> axes);

// The same for sums over at least two axes with vectors along one of them.
std::vector<Opt> LongSumOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                             std::span<const MemoryAxis> axes);

}  // namespace uopd::codegen
