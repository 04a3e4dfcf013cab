// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline_begin.h"

#include <array>
#include <utility>

#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// One thread makes the barriers of all parts, for so many arrivals in each phase.
void InitBarriers(const PipelineBegin& b, UOp barriers, int64_t arrivals, LineList& out) {
  out.AddAll(b.ctx.Make(
      Op::BULK_INIT, Dtype::Void,
      {ir::Index(b.ctx, barriers, b.ctx.Idx(0), b.plan.boxes->first_thread, b.plan.parts)},
      ir::Arg::Int(arrivals)));
}

void WaitForPart(ir::UOpContext& ctx, UOp barriers, UOp part, UOp phase, LineList& out) {
  out.AddAll(
      ctx.Make(Op::BULK_WAIT, Dtype::Void,
               {ir::Index(ctx, barriers, part), ir::Alu(ctx, Op::CMOD, {phase, ctx.Idx(2)})}));
}

}  // namespace

void BeginWordLoop(const PipelineBegin& b) {
  const UOp range = b.loop.range;
  const int64_t ahead = b.plan.ahead;
  // The parts may still be in use, where the loop runs again.
  if (b.loop.nested) b.out.Mark(Op::BARRIER);
  for (int64_t s = 0; s < ahead; ++s) {
    b.ring.CopyStep(b.ctx.Idx(s), b.out);
    b.out.Mark(Op::ASYNC_COMMIT);
  }
  b.out.Add(range);
  b.out.Mark(Op::ASYNC_WAIT, ir::Arg::Int(ahead - 1));
  b.out.Mark(Op::BARRIER);
  b.ring.BeginParts(range, b.out);
  b.ring.CopyStep(rules::IndexSum(b.ctx, range, b.ctx.Idx(ahead)), b.out);
  b.out.Mark(Op::ASYNC_COMMIT);
}

void BeginBoxLoop(const PipelineBegin& b) {
  const UOp range = b.loop.range, filled = b.plan.boxes->filled;
  b.out.Add(filled);
  InitBarriers(b, filled, 1, b.out);
  b.out.Mark(Op::BARRIER);
  for (int64_t s = 0; s < b.plan.ahead; ++s) b.ring.CopyStep(b.ctx.Idx(s), b.out);
  b.out.Add(range);
  b.out.Mark(Op::BARRIER);
  const UOp part = b.ring.BeginParts(range, b.out);
  b.ring.CopyStep(rules::IndexSum(b.ctx, range, b.ctx.Idx(b.plan.ahead)), b.out);
  WaitForPart(b.ctx, filled, part, b.ring.TurnOf(range), b.out);
}

RoleLines BeginRoleLoop(const PipelineBegin& b) {
  const PipelineBoxes& boxes = *b.plan.boxes;
  const UOp range = b.loop.range;
  RoleLines lines{.before = b.out.Take()};
  // Each list of lines has what it needs; JoinRoles takes a line once.
  LineList init(b.ctx), copies(b.ctx);
  init.Add(boxes.filled);
  init.Add(boxes.free);
  InitBarriers(b, boxes.filled, 1, init);
  InitBarriers(b, boxes.free, b.plan.roles->warps, init);
  init.Mark(Op::BARRIER);
  lines.init = init.Take();
  const UOp step = copies.AddAll(
      ir::Range(b.ctx, range.src(0), b.loop.free_axis, static_cast<ir::AxisType>(range.ints()[1])));
  const UOp part = copies.AddAll(b.ring.PartOf(step));
  // A part that was never filled is free: the wait for a phase before the first one is over at
  // once.
  WaitForPart(b.ctx, boxes.free, part, rules::IndexSum(b.ctx, b.ring.TurnOf(step), b.ctx.Idx(1)),
              copies);
  b.ring.CopyBoxes(step, part, UOp(), copies);
  copies.Add(ir::End(b.ctx, copies.lines().back(), std::array<UOp, 1>{step}));
  lines.copies = copies.Take();
  b.out.Add(range);
  WaitForPart(b.ctx, boxes.filled, b.ring.BeginParts(range, b.out), b.ring.TurnOf(range), b.out);
  return lines;
}

void FreePartBefore(const PipelineBegin& b) {
  const UOp step = b.loop.range;
  const UOp lane =
      ir::Alu(b.ctx, Op::CMOD, {b.plan.roles->thread, b.ctx.Idx(b.plan.roles->warp_lanes)});
  const UOp gate =
      And(b.ctx, ir::Alu(b.ctx, Op::CMPEQ, {lane, b.ctx.Idx(0)}), Lt(b.ctx, b.ctx.Idx(0), step));
  const UOp part = b.ring.PartOf(rules::IndexSum(b.ctx, step, b.ctx.Idx(b.plan.parts - 1)));
  b.out.AddAll(
      b.ctx.Make(Op::BULK_ARRIVE, Dtype::Void, {ir::Index(b.ctx, b.plan.boxes->free, part, gate)}));
}

}  // namespace uopd::codegen
