// SPDX-License-Identifier: MIT
// Sum: index arithmetic as constant + sum of factor * value, the normal form in which indices are
// compared, divided and bounded.
//
// A Sum is plain data; ToSum reads it from an expression, FromSum builds the expression. Numbers
// are limited to 62 bits; a function that would exceed them returns nullopt or null.
#pragma once
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "core/ir/context.h"

namespace uopd::rules {

// factor * value. The value is not a sum, not a product with a constant and not a constant.
struct Term {
  ir::UOp value;
  int64_t factor;
};

// constant + sum of terms. Terms are in the order of Compare; factors are not 0; values are
// distinct.
struct Sum {
  absl::InlinedVector<Term, 6> terms;
  int64_t constant = 0;
};

// The numbers that a Sum may contain: 62 bits, so that adding two of them does not overflow.
inline bool FitsSum(int64_t v) { return v > -(int64_t{1} << 62) && v < int64_t{1} << 62; }

// a / b rounded down (FloorDiv) or up (CeilDiv), for b > 0. Uses 64-bit division if a fits: 128-bit
// division is slow.
inline ir::Int128 FloorDiv(ir::Int128 a, int64_t b) {
  if (const auto n = static_cast<int64_t>(a); n == a) return n / b - (n % b < 0);
  return a / b - (a % b < 0);
}
inline ir::Int128 CeilDiv(ir::Int128 a, int64_t b) {
  if (const auto n = static_cast<int64_t>(a); n == a) return n / b + (n % b > 0);
  return a / b + (a % b > 0);
}

// The sum that an index expression is; nullopt if a coefficient leaves 62 bits. REQUIRES: x has
// dtype index.
std::optional<Sum> ToSum(ir::UOpContext& ctx, ir::UOp x);
// ToSum of a + factor * b, without creating that node.
std::optional<Sum> ToSum(ir::UOpContext& ctx, ir::UOp a, ir::UOp b, int64_t factor);
inline std::optional<Sum> ToDifference(ir::UOpContext& ctx, ir::UOp a, ir::UOp b) {
  return ToSum(ctx, a, b, -1);
}
// Whether x == FromSum(ToSum(x)), without building it: far cheaper. Adds the ops of the values of
// the terms to `values`. REQUIRES: x has dtype index.
bool IsNormalSum(ir::UOp x, ir::OpSet& values);
// ToSum without sorting the terms. REQUIRES: IsNormalSum(x).
std::optional<Sum> NormalSum(ir::UOp x);
// The expression of a sum: terms added left to right, the constant last. Null if the bounds of a
// part leave 64 bits, which Verify refuses: interval arithmetic may know less about the new form
// than about the old one. Subexpressions of `maybe_like`, a valid index expression, are reused
// where they match, which saves look-ups.
ir::UOp FromSum(ir::UOpContext& ctx, const Sum& sum, ir::UOp maybe_like = ir::UOp());
// The bounds of factor * x, for x in `bounds`. If they are too wide to be added exactly, a huge
// interval around 0, from which nothing follows.
ir::Bounds Scaled(ir::Bounds bounds, int64_t factor);
// The bounds of a sum, from the bounds of the values of its terms.
using TermBounds = absl::FunctionRef<ir::Bounds(ir::UOp)>;
ir::Bounds BoundsOf(TermBounds bounds, const Sum& sum);
ir::Bounds BoundsOf(ir::UOpContext& ctx, const Sum& sum);
// Whether the bounds of the index expression fit 64 bits.
bool FitsIndex(ir::UOpContext& ctx, ir::UOp u);
// op(a, b), or null if one of them is null or the result could leave 64 bits.
ir::UOp CheckedAlu(ir::UOpContext& ctx, ir::Op op, ir::UOp maybe_a, ir::UOp maybe_b);

}  // namespace uopd::rules
