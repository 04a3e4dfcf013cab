// SPDX-License-Identifier: MIT
// The heuristic for targets with blocks. Each opt is kept only if it applies.
//
// Products of matrices get a tile of the result for each block, with the operands in shared memory
// (choose_product.cc), after axes are merged that are short (choose_merge.cc). No other step
// follows. Other kernels take the steps of kGpuSteps. Attention is decided before
// (opts/choose/heuristic.cc).
#pragma once
#include <vector>

#include "core/codegen/opts/opt.h"

namespace uopd::codegen {

// The opts of a kernel for a target with blocks, with the MERGEs that give a product its tile.
// REQUIRES: as FactsOf; target.blocks. The context and the target must outlive the call.
std::vector<Opt> GpuOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
