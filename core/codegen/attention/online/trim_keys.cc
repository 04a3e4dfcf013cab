// SPDX-License-Identifier: MIT
// TrimKeys: the loop over tiles of keys ends where the gates of all states are false
// (masked_keys.h).
#include <algorithm>
#include <utility>

#include "core/codegen/attention/online/masked_keys.h"
#include "core/codegen/attention/online/online.h"
#include "core/codegen/passes/rebuild.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

// The iterations of these ranges share a loop over tiles of keys: it is as long as the longest
// needs.
bool SharesLoop(UOp u) {
  return u.Is(Op::RANGE) && u.axis_type() != AxisType::LOOP && u.axis_type() != AxisType::THREAD &&
         u.axis_type() != AxisType::GLOBAL;
}

// The largest (or least) value of an index over all values of shared ranges; null: unknown.
UOp MaybeExtreme(ir::UOpContext& ctx, UOp u, bool largest) {
  if (SharesLoop(u)) {
    if (!u.src(0).Is(Op::CONST)) return UOp();
    return ctx.Idx(largest ? std::max<int64_t>(0, u.src(0).const_int() - 1) : 0);
  }
  const auto order = ir::Toposort(ctx, u);
  if (std::ranges::none_of(order, SharesLoop)) return u;
  const auto of = [&](size_t i, bool same) {
    return MaybeExtreme(ctx, u.src(i), same ? largest : !largest);
  };
  const bool by_constant = u.n_src() == 2 && u.src(1).Is(Op::CONST);
  const int64_t by = by_constant ? u.src(1).const_int() : 0;
  switch (u.op()) {
    case Op::ADD:
    case Op::MAX: {
      const UOp a = of(0, true), b = of(1, true);
      if (!a || !b) return UOp();
      return u.Is(Op::ADD) ? rules::IndexSum(ctx, a, b) : ir::Alu(ctx, Op::MAX, {a, b});
    }
    case Op::MUL: {
      const UOp a = by_constant ? of(0, by >= 0) : UOp();
      return a ? rules::IndexProduct(ctx, a, u.src(1)) : UOp();
    }
    case Op::NEG: {
      const UOp a = of(0, false);
      return a ? ir::Alu(ctx, Op::NEG, {a}) : UOp();
    }
    case Op::FLOORDIV: {
      const UOp a = by > 0 ? of(0, true) : UOp();
      return a ? ir::Alu(ctx, Op::FLOORDIV, {a, u.src(1)}) : UOp();
    }
    case Op::FLOORMOD:
      return by > 0 ? ctx.Idx(largest ? by - 1 : 0) : UOp();
    default:
      return UOp();
  }
}

// Takes a condition that the tile begins before some place out of a gate.
struct Taken {
  UOp rest, before;  // `before`: CMPLT(tile * n, place), or null
};
Taken Take(ir::UOpContext& ctx, UOp gate, UOp tile) {
  if (gate.Is(Op::AND)) {
    const Taken a = Take(ctx, gate.src(0), tile);
    if (a.before) return {And(ctx, a.rest, gate.src(1)), a.before};
    const Taken b = Take(ctx, gate.src(1), tile);
    if (b.before) return {And(ctx, gate.src(0), b.rest), b.before};
    return {gate, UOp()};
  }
  if (!gate.Is(Op::CMPLT)) return {gate, UOp()};
  const UOp at = gate.src(0);
  const bool mine = at == tile || (at.Is(Op::MUL) && at.src(0) == tile && at.src(1).Is(Op::CONST));
  return mine ? Taken{ctx.Bool(true), gate} : Taken{gate, UOp()};
}

}  // namespace

UOp TrimKeys(ir::UOpContext& ctx, UOp sink) {
  UOp end;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (ClosesStates(u)) end = u;
  }
  if (!end) return sink;
  const UOp tile = end.closed()[0];
  UOp before;
  ir::Substitution stages;
  bool has_start = true;  // the states are set before the loop, which may have no iteration
  for (UOp stage : end.src(0).srcs()) {
    const Taken taken = Take(ctx, stage.src(2), tile);
    if (!taken.before || (before && before != taken.before)) return sink;
    before = taken.before;
    has_start = has_start && stage.tag() == kThreadStage;
  }
  const UOp from = MaybeExtreme(ctx, before.src(1), true);
  const int64_t n = before.src(0) == tile ? 1 : before.src(0).src(1).const_int();
  UOp size = tile.src(0);
  if (from) {
    const UOp tiles =
        ir::Alu(ctx, Op::FLOORDIV, {rules::IndexSum(ctx, from, ctx.Idx(n - 1)), ctx.Idx(n)});
    const auto negated = [&](UOp u) { return rules::IndexProduct(ctx, u, ctx.Idx(-1)); };
    size = negated(ir::Alu(ctx, Op::MAX, {negated(size), negated(tiles)}));
    size = ir::Alu(ctx, Op::MAX, {size, ctx.Idx(has_start ? 0 : 1)});
  }
  const UOp trimmed = Range(ctx, size, tile.axis_id(), tile.axis_type());
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> s) -> UOp {
    if (u == tile) return trimmed;
    const auto states = end.src(0).srcs();
    if (!u.Is(Op::STAGE) || std::ranges::find(states, u) == states.end())
      return rules::WithIndexSources(ctx, u, s);
    std::vector<UOp> srcs(s.begin(), s.end());
    srcs[2] = Take(ctx, s[2], trimmed).rest;
    return ctx.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag());
  });
}

}  // namespace uopd::codegen
