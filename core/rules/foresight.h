// SPDX-License-Identifier: MIT
// Whether tighter bounds of parts of an expression could simplify it: interval arithmetic on the
// nodes in place, a small part of what it costs to build the expression with those bounds and
// rewrite it.
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

// A sum of which more is known than of its terms, and the term, of factor 1 or -1, that is replaced
// by what the sum and the other terms say.
struct BoundedSum {
  ir::UOp value;
  Sum sum;
  ir::Bounds bounds;
  ir::UOp replaced;
};

// False if index and boolean rules leave the expression, which they have been applied to, as it is
// when each of `tight` is a variable of these bounds, none of them a point, and `maybe_sum` is put
// in terms of a variable. True is an answer that is always allowed.
bool MaySimplify(ir::UOpContext& ctx, const MathGraph& graph, std::span<const BoundedNode> tight,
                 const BoundedSum* maybe_sum);

}  // namespace uopd::rules
