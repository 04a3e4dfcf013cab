// SPDX-License-Identifier: MIT
// Trial: one attempt to simplify an expression with what a condition says (given.h).
//
// The expression is copied into a context of its own. There a node with tighter bounds is a variable
// of those bounds, and a part of the condition is a constant. It is simplified by the plain rules
// and copied back. Used once, by one thread.
#pragma once
#include <span>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "core/ir/graph.h"
#include "core/rules/foresight.h"
#include "core/rules/math_graph.h"

namespace uopd::rules {

// A condition, or a part of one, and whether it holds.
struct Fact {
  ir::UOp condition;
  bool holds;
};
// Null if nothing is known of u.
const Fact* MaybeFactOf(std::span<const Fact> facts, ir::UOp u);

class Trial {
 public:
  // All arguments outlive it. The expression is the last node of `graph`.
  Trial(ir::UOpContext& ctx, const MathGraph& graph, std::span<const Fact> facts,
        std::span<const BoundedNode> tight);

  // The simplified expression, in `ctx`; null unless it weighs less. With `maybe_sum`, the term
  // `replaced` of that sum becomes a variable for the whole sum less the other terms.
  ir::UOp Run(const BoundedSum* maybe_sum);

 private:
  const BoundedNode* MaybeTight(ir::UOp u) const;
  // A new variable of the scratch context that stands for u.
  ir::UOp Variable(ir::UOp u, ir::Bounds bounds);
  // What stands for u: a constant, or one variable however often it is asked for.
  ir::UOp Leaf(ir::UOp u);
  // Puts the sum's variable in place of the term that it replaces; returns the variable.
  ir::UOp ReplaceTerm(const BoundedSum& sum);
  // Fills in what is left of there_.
  void CopyRest();
  // `out` with the sum's variable written as its terms again.
  ir::UOp WithTerms(ir::UOp out, const BoundedSum& sum, ir::UOp variable);
  // `out` in terms of ctx_, as the rules leave it there; null unless it weighs less than `weight`.
  ir::UOp Back(ir::UOp out, int64_t weight);

  ir::UOpContext& ctx_;
  const MathGraph& graph_;
  const std::span<const Fact> facts_;
  const std::span<const BoundedNode> tight_;
  ir::UOpContext scratch_;
  absl::InlinedVector<std::pair<ir::UOp, ir::UOp>, 16> variables_;  // here, there
  absl::InlinedVector<ir::UOp, 64> there_;                          // by position in graph_
  bool plain_ = true;  // every variable stands for a node that is no arithmetic
};

}  // namespace uopd::rules
