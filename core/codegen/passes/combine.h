// SPDX-License-Identifier: MIT
// Combine: one step of a reduction, in ops that a linear kernel may contain.
//
// Used by the passes Unroll, JoinLanes and Linearise; DecomposeAlu uses Maximum.
#pragma once
#include "core/ir/build.h"

namespace uopd::codegen {

// `op` is the op of a REDUCE: ADD, MUL or MAX. For bools ADD is OR and MUL is AND. A float maximum
// is NaN if one operand is NaN.
ir::UOp Combine(ir::UOpContext& ctx, ir::Op op, ir::UOp a, ir::UOp b);

// max(a, b) without the op MAX: compare and select.
ir::UOp Maximum(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);

}  // namespace uopd::codegen
