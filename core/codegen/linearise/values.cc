// SPDX-License-Identifier: MIT
// Where the Lineariser puts values: each in the innermost loop that it depends on; reductions and
// arrays over equal loops in the same place share one loop.
#include <algorithm>
#include <utility>

#include "core/codegen/linearise/lineariser.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// Emits `first` and all reductions and arrays that can share its loops.
absl::Status EmitWithLoops(Lineariser& l, UOp first) {
  std::vector<UOp> together;
  const auto loops = LoopsOf(first);
  for (UOp r : l.with_loops) {
    const auto mine = LoopsOf(r);
    const bool same = std::equal(mine.begin(), mine.end(), loops.begin(), loops.end());
    if (same && l.loops.Level(r) == l.loops.Level(first) &&
        l.loops.Along(r) == l.loops.Along(first) && !l.scopes.IsMade(r))
      together.push_back(r);
  }
  // The reduction or array stands outside of the open loops that it does not depend on: set those
  // scopes aside while it is emitted.
  std::vector<Scope> set_aside = l.scopes.SetAside(l.loops.Along(first));
  UOPD_TRY(EmitLoops(l, together));
  l.scopes.PutBack(std::move(set_aside));
  return absl::OkStatus();
}

}  // namespace

absl::Status EmitValues(Lineariser& l, std::span<const UOp> roots) {
  const LoopSet open = l.scopes.OpenLoops();
  auto enter = [&](UOp u) { return !u.Is({Op::PARAM, Op::BUFFER}) && !l.scopes.IsMade(u); };
  for (UOp u : ir::Toposort(l.ctx, roots, enter)) {
    if (l.ctx.Interrupted(4)) return l.ctx.CheckInterrupt();
    if (u.dtype() == Dtype::Void) continue;  // a statement: emitted with its array
    if ((l.loops.Along(u) & ~open) != 0 || l.scopes.IsMade(u))
      continue;  // depends on a closed loop: emitted with its reduction or array
    if (HasLoops(u)) {
      UOPD_TRY(EmitWithLoops(l, u));
      continue;
    }
    if (u.Is(Op::SCAN)) {
      UOPD_TRY(EmitScan(l, u));
      continue;
    }
    Scope& home = l.scopes.Home(u);
    UOp made = u;
    if (u.Is(Op::BUFFER)) {
      made = ir::Buffer(l.ctx, l.next_register++, u.dtype(), u.src(0), u.addrspace());
    } else if (!u.Is(Op::PARAM)) {
      std::vector<UOp> srcs;
      for (UOp s : u.srcs()) srcs.push_back(l.scopes.New(s));
      made = l.ctx.Make(u.op(), u.dtype(), srcs, u.arg(),
                        u.Is(ir::OpSet{Op::LOAD, Op::EXP2, Op::EXP}) ? u.tag() : 0);
    }
    home.made[u.id()] = made;
    home.lines.push_back(made);
  }
  return absl::OkStatus();
}

absl::Status OpenLoop(Lineariser& l, UOp range) {
  UOPD_TRY(EmitValues(l, range.srcs()));
  const UOp size = l.scopes.New(range.src(0));
  if (range.axis_type() != ir::AxisType::THREAD) {
    l.scopes.Open(range, size);
    return absl::OkStatus();
  }
  UOPD_ASSIGN(l.grid_x, LaunchSize::Of(size, l.variables));
  const UOp special = l.ctx.Make(Op::SPECIAL, Dtype::Index, {size},
                                 l.ctx.Data({static_cast<int64_t>(ir::AxisType::THREAD), 0}));
  Scope& body = l.scopes.body();
  if (body.made.try_emplace(range.id(), special).second) body.Line(special);
  return absl::OkStatus();
}

}  // namespace uopd::codegen
