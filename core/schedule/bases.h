// SPDX-License-Identifier: MIT
// The storage under a target or a state, ir::MaybeBaseOf, found once for each node: a chain of n
// states has n nodes above the first.
#pragma once
#include "core/ir/node_index.h"
#include "core/ir/spec.h"

namespace uopd::schedule {

class Bases {
 public:
  explicit Bases(const ir::UOpContext& ctx) : ctx_(ctx), known_(ctx.size()) {}

  // Null: it is over no storage.
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
  ir::NodeIndex known_;  // the first node below that is on no way
};

}  // namespace uopd::schedule
