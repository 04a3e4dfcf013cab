// SPDX-License-Identifier: MIT
// Combine: one step of a reduction, in ops that programs may hold.
#pragma once
#include "core/ir/build.h"

namespace uopd::codegen {

// `op` is that of a REDUCE (ADD, MUL, MAX). Bool sums are ORs; a float maximum is NaN if either is.
ir::UOp Combine(ir::UOpContext& ctx, ir::Op op, ir::UOp a, ir::UOp b);

// The larger one, without MAX.
ir::UOp Maximum(ir::UOpContext& ctx, ir::UOp a, ir::UOp b);

}  // namespace uopd::codegen
