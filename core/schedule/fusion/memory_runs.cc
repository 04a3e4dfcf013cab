// SPDX-License-Identifier: MIT
#include "core/schedule/fusion/memory_runs.h"

#include "core/ir/graph.h"
#include "core/ir/shape.h"

namespace uopd::schedule {

using ir::Op;
using ir::OpSet;
using ir::UOp;
using ir::UOpContext;

bool IsInMemory(UOp u) {
  return u.Is(Op::PARAM) || (u.Is(Op::AFTER) && !u.src(0).Is(ir::kMovementOps));
}

bool KeepsMemory(UOpContext& ctx, UOp reshape) {
  ir::SymbolicDims sides[2];
  for (const UOp u : {reshape, reshape.src(0)}) {
    for (UOp d : *ctx.ShapeOf(u)) {
      if (!d.IsConstInt(1)) sides[u == reshape].push_back(d);
    }
  }
  const auto& [from, to] = sides;
  size_t same = 0;
  while (same < from.size() && same < to.size() && from[same] == to[same]) ++same;
  int64_t most[2] = {1, 1};
  for (size_t i = 0; i < 2; ++i) {
    const ir::Shape rest = ir::Shape(sides[i]).subspan(same);
    if (!rest.empty() && !ir::StaticDims(rest.subspan(1))) return false;
    most[i] = ir::Product(ir::MaxDims(ctx, rest));
  }
  return most[0] == most[1];
}

std::pair<UOp, int64_t> RunOf(UOpContext& ctx, UOp u) {
  int64_t from = 0;
  for (; u.Is(OpSet{Op::RESHAPE, Op::SHRINK}); u = u.src(0)) {
    if (u.Is(Op::RESHAPE)) {
      if (!KeepsMemory(ctx, u)) break;
      continue;
    }
    const auto in = ir::StaticDims(*ctx.ShapeOf(u.src(0))), out = ir::StaticDims(*ctx.ShapeOf(u));
    if (!in || !out) break;
    // A SHRINK is a run if it takes one element along some outer axes, part of one axis, and all
    // of the inner axes.
    bool whole = false, is_run = true;
    int64_t first = 0;
    for (size_t i = 0; i < in->size() && is_run; ++i) {
      const UOp start = u.src(1).src(i);
      is_run = start.Is(Op::CONST) && (!whole || (*out)[i] == (*in)[i]);
      if (!is_run) break;
      whole |= (*out)[i] != 1;
      first = first * (*in)[i] + start.const_int();
    }
    if (!is_run) break;
    from += first;
  }
  return {u, from};
}

}  // namespace uopd::schedule
