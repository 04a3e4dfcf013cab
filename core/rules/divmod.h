// SPDX-License-Identifier: MIT
// Simplification of floor division and remainder of index expressions.
//
// Based on: x = c*a + b implies x / c == a + b / c and x % c == b % c (divmod.cc). Used by the rule
// index.divmod.
#pragma once
#include <optional>

#include "core/ir/context.h"
#include "core/rules/terms.h"

namespace uopd::rules {

// A simpler expression equal to x / c (or x % c), or null. REQUIRES: x is an index, c > 0.
ir::UOp SimplifyFloorDiv(ir::UOpContext& ctx, ir::UOp x, int64_t c);
ir::UOp SimplifyFloorMod(ir::UOpContext& ctx, ir::UOp x, int64_t c);
// Whether `sum` / c or `sum` % c would simplify if the terms of the sum had these bounds.
bool SimplifiesDivMod(TermBounds bounds, const Sum& sum, int64_t c);
// t, if `sum` is t plus a multiple of c, where t is within (-c, c), may be negative, and t + c >=
// limit then. So sum % c < limit says that 0 <= t < limit. Else nullopt.
std::optional<Sum> MaybeInWindow(TermBounds bounds, const Sum& sum, int64_t c, ir::Int128 limit);
// A simpler expression equal to u, or null. u is a FLOORDIV or FLOORMOD of index dtype with any
// divisor, also a symbolic one. Division by zero gives 0.
ir::UOp SimplifyFloorDivMod(ir::UOpContext& ctx, ir::UOp u);

}  // namespace uopd::rules
