// SPDX-License-Identifier: MIT
#include "core/rules/math_graph.h"

#include <algorithm>

#include "core/rules/compare.h"

namespace uopd::rules {

using ir::Dtype;
using ir::Op;
using ir::OpSet;
using ir::UOp;

bool IsMath(UOp u) {
  return u.Is(ir::kElementwiseOps) && (u.dtype() == Dtype::Index || u.dtype() == Dtype::Bool) &&
         !u.Is(Op::CAST) && std::all_of(u.srcs().begin(), u.srcs().end(), [](UOp s) {
           return s.dtype() == Dtype::Index || s.dtype() == Dtype::Bool;
         });
}

bool IsLinear(UOp u) {
  return u.dtype() == Dtype::Index &&
         (u.Is(OpSet{Op::NEG, Op::ADD, Op::SUB}) ||
          (u.Is(Op::MUL) && (u.src(0).Is(Op::CONST) || u.src(1).Is(Op::CONST))));
}

int64_t MathGraph::Weight() const {
  if (!complete_) return INT64_MAX;
  int64_t w = 0;
  for (UOp u : nodes_) {
    if (u.Is(Op::CONST) || IsLinear(u) || MaybeNegated(u)) continue;
    w += u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}) ? 5 : 1;
  }
  return w;
}

void MathGraph::Walk(UOp root) {
  absl::InlinedVector<UOp, 32> stack = {root};
  while (!stack.empty()) {
    const UOp u = stack.back();
    uint16_t& slot = slots_[SlotOf(u)];
    if (slot == 0) {
      seen_.push_back({u, kOpen});
      slot = static_cast<uint16_t>(seen_.size());
      if (IsMath(u)) {
        for (size_t i = u.n_src(); i-- > 0;) {
          if (slots_[SlotOf(u.src(i))] == 0) stack.push_back(u.src(i));
        }
        if (seen_.size() > kMaxNodes) {
          complete_ = false;
          return;
        }
        continue;
      }
    }
    stack.pop_back();
    Seen& seen = seen_[slot - 1];
    if (seen.index != kOpen) continue;
    seen.index = static_cast<uint16_t>(nodes_.size());
    nodes_.push_back(u);
  }
}

}  // namespace uopd::rules
