// SPDX-License-Identifier: MIT
// Sums of products: the normal form in which index arithmetic is compared, divided and bounded.
#pragma once
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "core/ir/context.h"

namespace uopd::rules {

// factor * value; the value is no sum, no product with a constant and no constant.
struct Term {
  ir::UOp value;
  int64_t factor;
};

// constant + sum of terms, terms in the order of Compare, factors not zero, values distinct.
struct Sum {
  absl::InlinedVector<Term, 6> terms;
  int64_t constant = 0;
};

// The numbers that a Sum may have: 62 bits, so that two of them add up.
inline bool FitsSum(int64_t v) { return v > -(int64_t{1} << 62) && v < int64_t{1} << 62; }

// a / b rounded down and up, for b > 0; wide division is slow.
inline ir::Int128 FloorDiv(ir::Int128 a, int64_t b) {
  if (const auto n = static_cast<int64_t>(a); n == a) return n / b - (n % b < 0);
  return a / b - (a % b < 0);
}
inline ir::Int128 CeilDiv(ir::Int128 a, int64_t b) {
  if (const auto n = static_cast<int64_t>(a); n == a) return n / b + (n % b > 0);
  return a / b + (a % b > 0);
}

// Decomposes an index expression; nullopt if a coefficient leaves 62 bits. REQUIRES: x has dtype
// index.
std::optional<Sum> ToSum(ir::UOpContext& ctx, ir::UOp x);
// As ToSum for a + factor * b, without making that node.
std::optional<Sum> ToSum(ir::UOpContext& ctx, ir::UOp a, ir::UOp b, int64_t factor);
inline std::optional<Sum> ToDifference(ir::UOpContext& ctx, ir::UOp a, ir::UOp b) {
  return ToSum(ctx, a, b, -1);
}
// Whether x is what FromSum makes of its sum: far cheaper than to make it. `values` gets the ops of
// the values of its terms. REQUIRES: x has dtype index.
bool IsNormalSum(ir::UOp x, ir::OpSet& values);
// As ToSum, without comparing terms. REQUIRES: IsNormalSum(x).
std::optional<Sum> NormalSum(ir::UOp x);
// The expression of a sum: terms added left to right, the constant last. Null if a part of it could
// leave 64 bits: interval arithmetic may know less about the new form than about the old one, and
// an index whose bounds leave 64 bits is refused by Verify. Parts that it has in common with
// `maybe_like`, a valid index expression, are taken from there instead of being looked up.
ir::UOp FromSum(ir::UOpContext& ctx, const Sum& sum, ir::UOp maybe_like = ir::UOp());
// The bounds of factor times a value of these bounds; wide around 0, so that nothing follows from
// them, where a sum of many might overflow.
ir::Bounds Scaled(ir::Bounds bounds, int64_t factor);
// The bounds of a sum from those of the values of its terms.
using TermBounds = absl::FunctionRef<ir::Bounds(ir::UOp)>;
ir::Bounds BoundsOf(TermBounds bounds, const Sum& sum);
ir::Bounds BoundsOf(ir::UOpContext& ctx, const Sum& sum);
// True if every value of the index expression fits 64 bits, as far as its bounds tell.
bool FitsIndex(ir::UOpContext& ctx, ir::UOp u);
// op(a, b), or null if one of them is null or the result could leave 64 bits.
ir::UOp CheckedAlu(ir::UOpContext& ctx, ir::Op op, ir::UOp maybe_a, ir::UOp maybe_b);

}  // namespace uopd::rules
