// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/pipeline.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/codegen/gpu/passes/pipeline/line_list.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_loop.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_plan.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_ring.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_step.h"
#include "core/codegen/gpu/passes/pipeline/role_plan.h"
#include "core/ir/build.h"
#include "core/ir/verify/spec.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// index + offset, with a constant of the index last: it may be part of an access.
UOp IndexFurther(ir::UOpContext& ctx, UOp index, UOp offset) {
  if (index.Is(Op::ADD) && index.src(1).Is(Op::CONST))
    return Add(ctx, Add(ctx, index.src(0), offset), index.src(1));
  return Add(ctx, index, offset);
}

// How a loop begins whose copies run on their own: what the functions below write to, and what they
// know. There is one for each way to copy (pipeline.h shows the lines of each). It adds the lines
// in front of the loop, the RANGE of the loop, and what a step does before it computes.
struct PipelineBegin {
  ir::UOpContext& ctx;
  const PipelineLoop& loop;
  const PipelinePlan& plan;
  PipelineRing& ring;
  LineList& out;
};

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

// All threads copy, word by word.
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

// One thread that also computes copies boxes.
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

// Warps of their own copy boxes. Takes the lines in front of the loop from `out`, which has those
// of the warps that compute afterwards. Returns all other lines.
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

// For warps that compute while others copy, behind the wait for the products of the step before:
// the part of that step may be filled again.
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

// Writes the lines again, with the copies where the plan has them.
class PipelineRewriter {
 public:
  PipelineRewriter(ir::UOpContext& ctx, std::span<const UOp> lines, const PipelineLoop& loop,
                   const PipelinePlan& plan)
      : ctx_(ctx), lines_(lines), loop_(loop), plan_(plan), ring_(ctx, loop, plan), out_(ctx) {
    if (plan.roles) made_[plan.boxes->thread.id()] = plan.roles->thread;
  }

  std::vector<UOp> Run() {
    for (size_t i = 0; i < lines_.size(); ++i) {
      const UOp u = lines_[i];
      if (i == loop_.begin) {
        BeginLoop();
      } else {
        if (i == loop_.end && !plan_.own) DepositStep(ctx_, loop_, next_, fetched_, out_);
        Rewrite(u);
      }
    }
    if (!plan_.roles) return out_.Take();
    role_lines_.computes = out_.Take();
    const UOp joined = JoinRoles(ctx_, plan_.roles->plan, plan_.roles->thread, role_lines_);
    return {joined.srcs().begin(), joined.srcs().end()};
  }

 private:
  void BeginLoop() {
    const UOp range = loop_.range;
    if (!plan_.own) {
      DepositStep(ctx_, loop_, ctx_.Idx(0), FetchStep(ctx_, loop_, ctx_.Idx(0), out_), out_);
      out_.Add(range);
      next_ = out_.AddAll(rules::IndexSum(ctx_, range, ctx_.Idx(1)));
      fetched_ = FetchStep(ctx_, loop_, next_, out_);
    } else if (plan_.roles) {
      role_lines_ = BeginRoleLoop(Begin());
    } else if (plan_.boxes) {
      BeginBoxLoop(Begin());
    } else {
      BeginWordLoop(Begin());
    }
  }
  PipelineBegin Begin() { return {ctx_, loop_, plan_, ring_, out_}; }

  void Rewrite(UOp u) {
    if (const auto* array = MaybeOwnArray(u); array && u.Is(Op::BUFFER)) {
      made_[u.id()] = ring_.Make(*array);
      return out_.Add(New(u));
    }
    if (std::ranges::find(loop_.copies, u) != loop_.copies.end()) {
      gone_.insert(u.id());
      return;
    }
    if (u.Is({Op::GROUP, Op::AFTER})) return RewriteList(u);
    if (plan_.roles && u == plan_.boxes->thread) return out_.Add(New(u));
    const UOp made = u.Is(Op::INDEX) && MaybeOwnArray(u.src(0)) ? MaybeIndexOfPart(u) : CopyLine(u);
    if (!made) return;  // the index of a copy
    made_[u.id()] = made;
    out_.Add(made);
    if (plan_.roles && u.Is(Op::MMA_WAIT)) FreePartBefore(Begin());
    if (plan_.groups_run_on && u.Is(Op::END) && u.closed().back() == loop_.range) EndGroups(made);
  }

  // The line with its new sources.
  UOp CopyLine(UOp u) {
    if (u.Is({Op::PARAM, Op::BUFFER})) return u;
    const std::vector<UOp> srcs = NewSources(u);
    return u.Is(Op::MMA_WAIT) && plan_.groups_run_on
               ? ctx_.Make(u.op(), u.dtype(), srcs, ir::Arg::Int(1))
               : ctx_.WithSources(u, srcs);
  }

  // The INDEX into an array in the part of this step; null in front of the loop, where only copies
  // use one.
  UOp MaybeIndexOfPart(UOp u) {
    std::vector<UOp> srcs = NewSources(u);
    const UOp part = ring_.MaybePart(*MaybeOwnArray(u.src(0)));
    if (!part) return UOp();
    srcs[1] = out_.AddAll(IndexFurther(ctx_, srcs[1], part));
    return ctx_.WithSources(u, srcs);
  }

  // A list of statements without the copies.
  void RewriteList(UOp u) {
    std::vector<UOp> srcs;
    for (UOp s : u.srcs()) {
      if (!gone_.contains(s.id())) srcs.push_back(New(s));
    }
    if (srcs.empty()) {
      gone_.insert(u.id());
    } else if (u.Is(Op::AFTER) && srcs.size() == 1) {
      made_[u.id()] = srcs[0];
    } else {
      out_.Add(made_[u.id()] = ctx_.Make(u.op(), u.dtype(), srcs, u.arg(), u.tag()));
    }
  }

  // Behind the loop: waits for the products of its last step.
  void EndGroups(UOp end) {
    std::vector<UOp> sums;
    for (UOp mma : loop_.groups) {
      const UOp index = mma.src(0);
      const UOp after = ir::After(ctx_, ir::MaybeBaseOf(index.src(0)), {end});
      const UOp at = out_.AddAll(ir::Index(ctx_, after, index.src(1), UOp(), index.arg().AsInt()));
      if (std::ranges::find(sums, at) == sums.end()) sums.push_back(at);
    }
    out_.Add(ctx_.Make(Op::MMA_WAIT, Dtype::Void, sums, ir::Arg::Int(0)));
  }

  // The array with several parts that a node is, or is made from; null: none.
  const PipelineArray* MaybeOwnArray(UOp u) const {
    return plan_.own ? loop_.MaybeArray(u) : nullptr;
  }
  UOp New(UOp u) const {
    const auto it = made_.find(u.id());
    return it == made_.end() ? u : it->second;
  }
  std::vector<UOp> NewSources(UOp u) const {
    std::vector<UOp> out;
    for (UOp s : u.srcs()) out.push_back(New(s));
    return out;
  }

  ir::UOpContext& ctx_;
  const std::span<const UOp> lines_;
  const PipelineLoop& loop_;
  const PipelinePlan& plan_;
  PipelineRing ring_;
  LineList out_;
  RoleLines role_lines_;
  UOp next_;           // the step after this one, and
  StepLoads fetched_;  // what its copies need; unless the copies run on their own
  absl::flat_hash_map<uint32_t, UOp> made_;  // lines -> what stands for them
  absl::flat_hash_set<uint32_t> gone_;       // copies, and lists of nothing else
};

}  // namespace

UOp Pipeline(ir::UOpContext& ctx, UOp linear, const PipelineWay& way) {
  const auto loop = MaybePipelineLoop(ctx, linear.srcs(), way.own);
  if (!loop) return linear;
  const PipelinePlan plan = PlanPipeline(ctx, linear.srcs(), *loop, way);
  const std::vector<UOp> lines = PipelineRewriter(ctx, linear.srcs(), *loop, plan).Run();
  return ctx.Make(Op::LINEAR, Dtype::Void, WithoutUnusedLines(lines), linear.arg(), linear.tag());
}

}  // namespace uopd::codegen
