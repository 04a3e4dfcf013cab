// SPDX-License-Identifier: MIT
// JoinLanes: combines the lanes of a vector of partial results into one scalar (a horizontal
// reduction).
//
// One vector of n lanes takes log2(n) steps. Vectors that are joined in the same place share steps:
// each step interleaves halves of two vectors into one, as in a butterfly, so n vectors of n lanes
// take n - 1 steps instead of n log2(n). The last step of Vectorise.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// A placeholder for the lanes of `vector` combined by `op` (the op of a REDUCE): a scalar node that
// JoinLanes replaces.
ir::UOp JoinOf(ir::UOpContext& ctx, ir::Op op, ir::UOp vector);

// root with every JoinOf replaced by its computation.
ir::UOp JoinLanes(ir::UOpContext& ctx, ir::UOp root);

}  // namespace uopd::codegen
