// SPDX-License-Identifier: MIT
// Closed forms of sums over a range: what makes arange, one-hot, triangular masks and gathers
// cheap.
//
//   sum over r in [0, n) of v                       = n * v, for v independent of r
//   sum over r in [0, n) of [lo <= r < hi] * v      = max(min(hi, n) - max(lo, 0), 0) * v
//   sum over r in [0, n) of [r == e] * f(r)         = [0 <= e < n] * f(e), whatever e is, loads too
//
// and linearity, for integers. A float sum counts from +0 and is exact where these are used:
// nothing is multiplied that could make a NaN out of an empty sum, and counts are exact in the
// dtype.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// The sum (bool: the or) of value over the range, with no loop over it; null if none is known.
// REQUIRES: range is a RANGE of index dtype.
ir::UOp SumOver(ir::UOpContext& ctx, ir::UOp value, ir::UOp range);

}  // namespace uopd::rules
