// SPDX-License-Identifier: MIT
// Index expressions as polynomials: what holds of a whole sum of dimensions.
//
// Interval arithmetic (bounds.h) looks at every operand by itself, so all that it knows of
// (v + 1) - v for v of 0 to 9 is -8 to 10. Here sums and products are multiplied out over atoms,
// which are whatever is no sum and no product; what cancels is gone before intervals are looked at.
//
// Shapes are compared with these. Every question costs a bounded number of steps, however large the
// expressions are: what is beyond that is an atom of its own, of which its interval is known.
#pragma once
#include <initializer_list>

#include "core/ir/context.h"

namespace uopd::ir {

// factor * value.
struct IndexTerm {
  UOp value;
  int factor;
};

// True if the sum of these terms is at least 0 for all values of the variables. False where that is
// not so, or cannot be shown. REQUIRES: values of dtype index.
bool IsNeverNegative(UOpContext& ctx, std::initializer_list<IndexTerm> sum);

// The interval of a dimension: as BoundsOf, or narrower. REQUIRES: dtype index.
Bounds DimensionBounds(UOpContext& ctx, UOp dim);

// True if both products are the same polynomial. REQUIRES: values of dtype index.
bool SameProduct(UOpContext& ctx, Shape a, Shape b);

// dim / n, where it is a multiple of n by its form, as 4 * v + 8 is of 4; null otherwise. REQUIRES:
// dtype index, n > 0.
UOp MaybeDivided(UOpContext& ctx, UOp dim, int64_t n);

}  // namespace uopd::ir
