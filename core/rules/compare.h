// SPDX-License-Identifier: MIT
// Comparisons of index expressions: one normal form, so that equal conditions are equal nodes.
//
//   terms < constant        terms without constant or common factor, the first factor positive
//   (terms < constant) != true      what `constant <= terms` becomes
//   a == b + constant, terms == constant      the same for CMPEQ and CMPNE
#pragma once
#include <optional>

#include "absl/functional/function_ref.h"
#include "core/ir/context.h"
#include "core/rules/terms.h"

namespace uopd::rules {

// The normal form of a CMPLT, CMPEQ or CMPNE of index expressions; null if there is none that fits
// 64 bits. May be the node itself.
ir::UOp NormaliseLess(ir::UOpContext& ctx, ir::UOp u);
ir::UOp NormaliseEqual(ir::UOpContext& ctx, ir::UOp u);

// A bool OR of `less` (or its negation) and an equality of index expressions, or an AND of it and
// an inequality, as one comparison; null if the second does not name the value next to the end of
// the first, or is no such thing.
ir::UOp MoveEnd(ir::UOpContext& ctx, ir::UOp u);

// Whether a comparison of `sum` with 0 that is in normal form would have a shorter one if its terms
// had these bounds.
bool SimplifiesCompare(TermBounds bounds, ir::Op op, Sum sum);

// A condition read as an interval: value in [min, max].
struct Bounded {
  ir::UOp value;
  ir::Bounds bounds;
};
// `condition` (or its negation, if !holds) as a bound of one index expression; nullopt if it is
// none. The interval is one-sided, or a point, within what the value's own bounds are.
std::optional<Bounded> AsBound(ir::UOpContext& ctx, ir::UOp condition, bool holds);

// p for !p: CMPNE(p, true). Null if u is no negation.
ir::UOp MaybeNegated(ir::UOp u);

// What a condition (or its negation, if !holds) says, part by part from the left: each part is a
// bool that is no conjunction itself, with whether it holds. Ends early when `part` returns false.
void ForEachPart(ir::UOp condition, bool holds, absl::FunctionRef<bool(ir::UOp, bool)> part);

}  // namespace uopd::rules
