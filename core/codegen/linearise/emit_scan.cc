// SPDX-License-Identifier: MIT
// The lines of running sums (lineariser.h).
#include "core/base/telemetry/log.h"
#include "core/codegen/linearise/accumulator.h"
#include "core/codegen/linearise/lineariser.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/vectors/scans.h"
#include "core/ir/build.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// A SCAN over a THREAD range: the sums of all threads before, in an array of the launch. Thread k
// waits for element k, which the thread before it has stored, and stores element k + 1. REQUIRES:
// the source of the SCAN has no loops left.
absl::Status EmitThreadScan(Lineariser& l, UOp u) {
  ir::UOpContext& ctx = l.ctx;
  Scope& home = l.scopes.body();
  const UOp thread = l.scopes.New(RangesOf(u)[0]), total = l.scopes.New(u.src(0));
  const int64_t threads = thread.src(0).const_int();
  const UOp array =
      home.Line(ir::Buffer(ctx, l.next_register++, u.dtype(),
                           ir::ShapeArg(ctx, ir::Dims{threads + 1}), ir::AddrSpace::LOCAL));
  const UOp waits = home.Line(Lt(ctx, ctx.Idx(0), thread));
  const UOp before = home.Line(ir::Load(ctx, home.Line(ir::Index(ctx, array, thread, waits))));
  const UOp none = IdentityOf(ctx, u);
  const UOp start = home.Line(ctx.Make(Op::WHERE, u.dtype(), {waits, before, none}));
  const UOp next = home.LineAll(ctx, Combine(ctx, u.reduce_op(), start, total), start, total);
  const UOp other = home.Line(ctx.Make(Op::ADD, Dtype::Index, {thread, ctx.Idx(1)}));
  home.Line(ir::Store(ctx, home.Line(ir::Index(ctx, array, other)), next));
  home.made[u.id()] = start;
  return absl::OkStatus();
}

}  // namespace

absl::Status EmitScan(Lineariser& l, UOp u) {
  ir::UOpContext& ctx = l.ctx;
  const auto over = RangesOf(u);
  if (over[0].axis_type() == ir::AxisType::THREAD) return EmitThreadScan(l, u);
  Scope* around = l.scopes.MaybeAround(l.loops.Bits(over));
  if (around == nullptr) return UOPD_BUG("a SCAN is outside of its loops");
  const UOp start = MaybeStartOf(u) ? l.scopes.New(MaybeStartOf(u)) : UOp();
  const Accumulator a = MakeAccumulator(l, u, start, *around);
  Scope& home = l.scopes.Home(u);
  const UOp now = home.Line(ir::After(ctx, a.buffer, {a.init, home.range}));
  const UOp at = home.Line(ir::Index(ctx, now, ctx.Idx(0), UOp(), a.lanes));
  const UOp before = home.Line(ir::Load(ctx, at)), x = l.scopes.New(u.src(0));
  const UOp after = home.LineAll(ctx, Combine(ctx, u.reduce_op(), before, x), before, x);
  home.Line(ir::Store(ctx, at, after));
  home.made[u.id()] = u.tag() == kBefore ? before : after;
  return absl::OkStatus();
}

}  // namespace uopd::codegen
