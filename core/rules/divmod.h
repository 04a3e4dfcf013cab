// SPDX-License-Identifier: MIT
// Floor division and remainder of index expressions.
#pragma once
#include "core/ir/context.h"
#include "core/rules/terms.h"

namespace uopd::rules {

// A simpler expression equal to x / c (or x % c) for all values, or null. REQUIRES: x is an index,
// c > 0.
ir::UOp SimplifyFloorDiv(ir::UOpContext& ctx, ir::UOp x, int64_t c);
ir::UOp SimplifyFloorMod(ir::UOpContext& ctx, ir::UOp x, int64_t c);
// Whether there would be one of `sum` / c or `sum` % c if its terms had these bounds.
bool SimplifiesDivMod(TermBounds bounds, const Sum& sum, int64_t c);
// As SimplifyFloorDiv for a FLOORDIV or FLOORMOD of index dtype and any divisor. Division by zero
// gives 0.
ir::UOp SimplifyFloorDivMod(ir::UOpContext& ctx, ir::UOp u);

}  // namespace uopd::rules
