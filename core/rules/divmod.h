// SPDX-License-Identifier: MIT
// Floor division and remainder of index sums by a positive constant.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// A simpler expression equal to x / c (or x % c) for all values, or null. REQUIRES: x is an index,
// c > 0.
ir::UOp SimplifyFloorDiv(ir::UOpContext& ctx, ir::UOp x, int64_t c);
ir::UOp SimplifyFloorMod(ir::UOpContext& ctx, ir::UOp x, int64_t c);

}  // namespace uopd::rules
