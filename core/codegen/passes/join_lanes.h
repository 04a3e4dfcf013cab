// SPDX-License-Identifier: MIT
// JoinLanes: the lanes of a vector of partial results become one result.
//
// Joined alone, a vector of n lanes takes log2(n) steps of its own; vectors that are joined in the
// same place share their steps, each of which halves the number of vectors first: n vectors of n
// lanes take n - 1 steps.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// The result over all lanes of a vector, combined by `op` (that of a REDUCE): a scalar that
// JoinLanes computes.
ir::UOp JoinOf(ir::UOpContext& ctx, ir::Op op, ir::UOp vector);

// root with every JoinOf computed.
ir::UOp JoinLanes(ir::UOpContext& ctx, ir::UOp root);

}  // namespace uopd::codegen
