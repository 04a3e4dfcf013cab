// SPDX-License-Identifier: MIT
// Sums of products: the normal form in which index arithmetic is compared, divided and bounded.
#pragma once
#include <optional>

#include "absl/container/inlined_vector.h"
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

// Decomposes an index expression; nullopt if a coefficient leaves 62 bits. REQUIRES: x has dtype
// index.
std::optional<Sum> ToSum(ir::UOpContext& ctx, ir::UOp x);
// The expression of a sum: terms added left to right, the constant last.
ir::UOp FromSum(ir::UOpContext& ctx, const Sum& sum);
ir::Bounds BoundsOf(ir::UOpContext& ctx, const Sum& sum);

// Exact floor division and remainder by a positive constant of everything in the sum that is
// divisible; what is left is in `rest`: x == c * quotient + rest, rest's factors all in (0, c) or
// (-c, 0), 0 <= rest.constant < c.
struct Division {
  Sum quotient, rest;
};
Division DivideExactParts(const Sum& sum, int64_t c);

}  // namespace uopd::rules
