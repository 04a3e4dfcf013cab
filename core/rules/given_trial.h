// SPDX-License-Identifier: MIT
// Trial: one attempt to simplify an expression with facts from a condition (given.h).
//
// The expression is copied into a scratch context. There a node with tighter bounds becomes a
// variable with those bounds, and a conjunct of the condition becomes a constant. The plain rules
// simplify the copy, and the result is copied back. A Trial is used once, by one thread.
#pragma once
#include <span>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "core/ir/graph.h"
#include "core/rules/foresight.h"
#include "core/rules/math_graph.h"

namespace uopd::rules {

// A condition, and whether it holds or fails.
struct Fact {
  ir::UOp condition;
  bool holds;
};
// The fact about u; null if there is none.
const Fact* MaybeFactOf(std::span<const Fact> facts, ir::UOp u);

class Trial {
 public:
  // The arguments must outlive the Trial. The expression is the last node of `graph`.
  Trial(ir::UOpContext& ctx, const MathGraph& graph, std::span<const Fact> facts,
        std::span<const BoundedNode> tight);

  // The simplified expression, in `ctx`; null unless its Weight is smaller. With `maybe_sum`, the
  // term `replaced` of that sum becomes a variable for the whole sum minus the other terms.
  ir::UOp Run(const BoundedSum* maybe_sum);

 private:
  const BoundedNode* MaybeTight(ir::UOp u) const;
  // A new variable of the scratch context that stands for u.
  ir::UOp Variable(ir::UOp u, ir::Bounds bounds);
  // The scratch node that stands for u: a constant, or a variable, the same one on every call.
  ir::UOp Leaf(ir::UOp u);
  // Replaces the term `sum.replaced`; returns the variable for the whole sum.
  ir::UOp ReplaceTerm(const BoundedSum& sum);
  // Fills the remaining entries of there_.
  void CopyRest();
  // `out` with the variable for the whole sum expanded to its terms.
  ir::UOp WithTerms(ir::UOp out, const BoundedSum& sum, ir::UOp variable);
  // `out` copied to ctx_ and simplified there; null unless its Weight is below `weight`.
  ir::UOp Back(ir::UOp out, int64_t weight);

  ir::UOpContext& ctx_;
  const MathGraph& graph_;
  const std::span<const Fact> facts_;
  const std::span<const BoundedNode> tight_;
  ir::UOpContext scratch_;
  // Variables stand for values of any dtype, also for bools, which no graph has as variables.
  ir::UncheckedNodes unchecked_{scratch_};
  absl::InlinedVector<std::pair<ir::UOp, ir::UOp>, 16> variables_;  // (node of ctx_, its variable)
  absl::InlinedVector<ir::UOp, 64> there_;  // scratch nodes, by position in graph_
  bool plain_ = true;                       // no variable stands for arithmetic
};

}  // namespace uopd::rules
