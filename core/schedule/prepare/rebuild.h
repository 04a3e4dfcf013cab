// SPDX-License-Identifier: MIT
// What passes that rewrite single REDUCEs have in common.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/ir/shape.h"

namespace uopd::schedule {

// `top` with `by` instead of `below`, which is reached from `top` along first sources. Movement ops
// on the way take the dtype of what they move.
inline ir::UOp WithBelow(ir::UOpContext& ctx, ir::UOp top, ir::UOp below, ir::UOp by) {
  std::vector<ir::UOp> way;
  for (ir::UOp u = top; u != below; u = u.src(0)) way.push_back(u);
  for (auto u = way.rbegin(); u != way.rend(); ++u) {
    ir::SymbolicDims srcs(u->srcs().begin(), u->srcs().end());
    srcs[0] = by;
    const ir::Dtype dtype = u->Is(ir::kMovementOps) ? by.dtype() : u->dtype();
    by = ctx.Make(u->op(), dtype, srcs, u->arg());
  }
  return by;
}

// Replaces each REDUCE by fn(made, old) and returns the new sink. `made` is `old` with sources that
// are replaced already. `order`: a topological order of the graph, the sink last. If the context is
// interrupted it returns the old sink.
template <class Fn>
ir::UOp RewriteReduces(ir::UOpContext& ctx, const std::vector<ir::UOp>& order, Fn fn) {
  std::vector<ir::UOp> done(ctx.size());
  ir::SymbolicDims srcs;
  for (ir::UOp u : order) {
    if (ctx.Interrupted()) return order.back();
    srcs.clear();
    for (ir::UOp s : u.srcs()) srcs.push_back(done[s.id()]);
    const ir::UOp made = ctx.WithSources(u, srcs);
    done[u.id()] = made.Is(ir::Op::REDUCE) ? fn(made, u) : made;
  }
  return done[order.back().id()];
}

}  // namespace uopd::schedule
