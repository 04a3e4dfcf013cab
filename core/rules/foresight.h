// SPDX-License-Identifier: MIT
// Foresight: a cheap test whether tighter bounds of parts of an expression could simplify it.
//
// A trial (given_trial.h) rebuilds the expression with the tighter bounds and rewrites it, which is
// expensive and usually useless. The test does interval arithmetic on the existing nodes instead.
// It may answer yes although nothing simplifies; MaySimplify says when a no is reliable.
#pragma once
#include <span>

#include "core/ir/context.h"
#include "core/rules/math_graph.h"
#include "core/rules/terms.h"

namespace uopd::rules {

struct BoundedNode {
  ir::UOp node;
  ir::Bounds bounds;
};

// A sum whose bounds are tighter than its terms imply.
struct BoundedSum {
  ir::UOp value;  // the sum as an expression
  Sum sum;
  ir::Bounds bounds;
  ir::UOp replaced;  // a term of factor 1 or -1, to be written as the sum minus the other terms
};

// False only if a trial with these facts would leave the expression as it is; true is always
// allowed. `tight`: nodes that the trial replaces by variables of tighter bounds. `maybe_sum`: the
// sum that the trial replaces by a variable, or null. False is reliable only if no bounds of
// `tight` are a point. REQUIRES: the plain rules have been applied to the expression.
bool MaySimplify(ir::UOpContext& ctx, const MathGraph& graph, std::span<const BoundedNode> tight,
                 const BoundedSum* maybe_sum);

}  // namespace uopd::rules
