// SPDX-License-Identifier: MIT
// The heuristic for targets with blocks: the steps that choose the opts of a kernel, in their
// order. Each opt is kept only if it applies.
//   0. Short axes of products are merged (choose_merge.cc).
//   1. Products of matrices: a tile of the result for each block, operands in shared memory
//      (choose_product.cc), by a matrix instruction where the target has one: of a group of warps
//      (choose_group_tile.cc) or of one warp (choose_warp_tile.cc). No other step follows.
//   2. Vectors: the widest access along an axis that is contiguous in memory.
//   3. Long reductions with few results, or along which memory is contiguous: a group of threads
//      for each result.
//   4. Threads along the output axes.
//   5. Short reductions are unrolled.
#pragma once
#include <vector>

#include "core/codegen/opts/opt.h"

namespace uopd::codegen {

// The opts of a kernel for a target with blocks, with the MERGEs that give a product its tile.
// REQUIRES: as FactsOf; target.blocks. The context and the target must outlive the call.
std::vector<Opt> GpuOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
