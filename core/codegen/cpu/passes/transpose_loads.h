// SPDX-License-Identifier: MIT
// TransposeLoads: loads a square of a transposed operand as vectors and transposes it in registers.
//
// n vectors of n lanes whose elements are gathered one by one, where each lane of one vector lies
// next to the same lane of another one, become n vector loads and n log2(n) shuffles. UPCAST of one
// axis and VECTOR of the other make such vectors. Runs after Vectorise.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// sink, which computes the same values. Gated loads stay as they are.
ir::UOp TransposeLoads(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
