// SPDX-License-Identifier: MIT
// Normal form of comparisons of index expressions: equal conditions become equal nodes.
//
//   terms < constant                        the terms have no common factor; the first factor is
//                                           positive
//   (terms < constant) != true              the form of constant <= terms
//   a == b + constant, terms == constant    equalities; inequalities (CMPNE) have the same forms
//
// Also here: conditions read as intervals, and conjunctions read part by part.
#pragma once
#include <optional>

#include "absl/functional/function_ref.h"
#include "core/ir/context.h"
#include "core/rules/terms.h"

namespace uopd::rules {

// The normal form of a CMPLT (NormaliseLess), or of a CMPEQ or CMPNE (NormaliseEqual), of index
// expressions; null if it does not fit 64 bits. May return u itself.
ir::UOp NormaliseLess(ir::UOpContext& ctx, ir::UOp u);
ir::UOp NormaliseEqual(ir::UOpContext& ctx, ir::UOp u);

// Moves the end of an interval by one: x < c || x == c becomes x < c + 1, x < c && x != c - 1
// becomes x < c - 1; likewise for !(x < c). u is the bool OR or AND. Null if u has no such form.
ir::UOp MoveEnd(ir::UOpContext& ctx, ir::UOp u);

// In a conjunction, simplifies terms < constant by what another conjunct says about a part of the
// terms: 59 * r + t < 177 && 0 <= t && t < 56 becomes r < 3 && ... u is the bool AND. Null if
// nothing changes.
ir::UOp DropKnownSum(ir::UOpContext& ctx, ir::UOp u);

// Whether a comparison of `sum` with 0, in normal form, would simplify if its terms had these
// bounds.
bool SimplifiesCompare(TermBounds bounds, ir::Op op, Sum sum);

// A condition read as an interval: value in [min, max].
struct Bounded {
  ir::UOp value;
  ir::Bounds bounds;
};
// `condition` (its negation if !holds) as an interval of one index expression, intersected with the
// expression's own bounds. nullopt if it is no comparison of an index expression with a constant.
std::optional<Bounded> AsBound(ir::UOpContext& ctx, ir::UOp condition, bool holds);

// p if u is the negation of p, which is CMPNE(p, true); else null.
ir::UOp MaybeNegated(ir::UOp u);

// Calls part(c, true_here) for each conjunct of a condition (of its negation if !holds), from the
// left: c holds if true_here, else c fails. Stops when `part` returns false.
void ForEachPart(ir::UOp condition, bool holds, absl::FunctionRef<bool(ir::UOp, bool)> part);

}  // namespace uopd::rules
