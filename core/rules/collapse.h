// SPDX-License-Identifier: MIT
// Closed forms of sums over a range: they make arange, one-hot, triangular masks and gathers cheap.
//
//   sum over r in [0, n) of v                       = n * v, for v independent of r
//   sum over r in [0, n) of [lo <= r < hi] * v      = max(min(hi, n) - max(lo, 0), 0) * v
//   sum over r in [0, n) of [r == e] * f(r)         = [0 <= e < n] * f(e); e may contain loads
//
// Sums of integers are also split over +, -, and factors that do not depend on r. For floats:
//   - the sum starts at +0, so it is never -0;
//   - an empty sum is 0, also if v is NaN or infinite;
//   - a form is used only if the dtype holds every possible count exactly.
//
// Used by the rule reduce.range.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// The sum (for bools: the OR) of value over the range, as an expression without the range; null if
// no closed form applies. REQUIRES: range is a RANGE of index dtype.
ir::UOp SumOver(ir::UOpContext& ctx, ir::UOp value, ir::UOp range);

}  // namespace uopd::rules
