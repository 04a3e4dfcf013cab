// SPDX-License-Identifier: MIT
// Index expressions as polynomials, to compare shapes and to find narrow bounds of sizes.
//
// Interval arithmetic (bounds.h) looks at each operand alone: for v in [0, 9], it only knows that
// (v + 1) - v is in [-8, 10]. Here sums and products are multiplied out over *atoms*, which are
// expressions that are neither sum nor product. Terms that cancel are removed before intervals are
// used.
//
// Every function takes a bounded number of steps, however large the expressions are. What is beyond
// the limit is treated as an atom with its interval.
#pragma once
#include <initializer_list>
#include <optional>
#include <vector>

#include "core/ir/context.h"

namespace uopd::ir {

// factor * value.
struct IndexTerm {
  UOp value;
  int factor;
};

// True if the sum of these terms is at least 0 for all values of the variables; false if it is not,
// or if that cannot be proven. REQUIRES: values of dtype index.
bool IsNeverNegative(UOpContext& ctx, std::initializer_list<IndexTerm> sum);

// The bounds of a dimension: those of BoundsOf, or narrower ones. REQUIRES: dtype index.
Bounds DimensionBounds(UOpContext& ctx, UOp dim);

// True if both products are the same polynomial. REQUIRES: values of dtype index.
bool SameProduct(UOpContext& ctx, Shape a, Shape b);

// factor * the product of atoms.
struct SizeTerm {
  std::vector<UOp> atoms;
  int64_t factor;
};
// The polynomial, each term once, in an order that depends on the nodes' ids. Nullopt if the
// expression has too many terms or too large numbers. REQUIRES: dtype index.
std::optional<std::vector<SizeTerm>> TermsOf(UOpContext& ctx, UOp dim);

// dim / n if every term of the polynomial is a multiple of n, as in 4 * v + 8 for n = 4; else null.
// REQUIRES: dtype index, n > 0.
UOp MaybeDivided(UOpContext& ctx, UOp dim, int64_t n);

}  // namespace uopd::ir
