// SPDX-License-Identifier: MIT
#include "core/rules/math_graph.h"

#include "core/rules/compare.h"

namespace uopd::rules {

using ir::Op;
using ir::OpSet;
using ir::UOp;

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
  struct Open {
    UOp node;
    uint16_t seen;  // position in seen_
    Places sources;
  };
  absl::InlinedVector<Open, 16> stack;
  // Returns the position of u in nodes_; kOpen if u is on the stack now.
  auto visit = [&](UOp u) {
    uint16_t& slot = slots_[SlotOf(u)];
    if (slot != 0) return seen_[slot - 1].index;
    const bool math = IsMath(u);
    const auto place = math ? kOpen : static_cast<uint16_t>(nodes_.size());
    seen_.push_back({u, place});
    slot = static_cast<uint16_t>(seen_.size());
    if (math) {
      stack.push_back({u, static_cast<uint16_t>(seen_.size() - 1), {}});
    } else {
      nodes_.push_back(u);
      sources_.push_back({});
    }
    return place;
  };
  visit(root);
  while (!stack.empty()) {
    if (seen_.size() > kMaxNodes) {
      complete_ = false;
      return;
    }
    Open& top = stack.back();
    const UOp u = top.node;
    uint16_t place = 0;
    while (top.sources.n < u.n_src()) {
      place = visit(u.src(top.sources.n));  // kOpen: `top` may be invalid now
      if (place == kOpen) break;
      top.sources.at[top.sources.n++] = place;
    }
    if (place == kOpen) continue;
    place = seen_[top.seen].index = static_cast<uint16_t>(nodes_.size());
    nodes_.push_back(u);
    sources_.push_back(top.sources);
    stack.pop_back();
    if (!stack.empty()) stack.back().sources.at[stack.back().sources.n++] = place;
  }
}

}  // namespace uopd::rules
