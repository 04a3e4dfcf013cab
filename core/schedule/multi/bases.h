// SPDX-License-Identifier: MIT
// The base of a view or AFTER: the PARAM or BUFFER below it, as ir::MaybeBaseOf finds it.
//
// Memoised for every node on the way, so that a chain of n AFTERs costs n steps in all, not n for
// each of its nodes.
#pragma once
#include "core/ir/tables/node_index.h"
#include "core/ir/verify/spec.h"

namespace uopd::schedule {

class Bases {
 public:
  explicit Bases(const ir::UOpContext& ctx) : ctx_(ctx), known_(ctx.size()) {}

  // Null: u is no view of a PARAM or BUFFER.
  ir::UOp MaybeOf(ir::UOp u) {
    if (ctx_.size() > known_.ids()) known_.Grow(ctx_.size() + ctx_.size() / 2);
    ir::UOp end = u;
    while (IsOnTheWay(end) && known_.Get(end) == ir::NodeIndex::kNone) end = end.src(0);
    const uint32_t base = IsOnTheWay(end) ? known_.Get(end) : end.id();
    for (ir::UOp v = u; v != end; v = v.src(0)) known_.Set(v, base);
    return ir::MaybeBaseOf(ctx_.node(base));
  }

 private:
  static bool IsOnTheWay(ir::UOp u) { return u.Is(ir::kMovementOps) || u.Is(ir::Op::AFTER); }

  const ir::UOpContext& ctx_;
  ir::NodeIndex known_;  // id of the first node below that is no movement op and no AFTER
};

}  // namespace uopd::schedule
