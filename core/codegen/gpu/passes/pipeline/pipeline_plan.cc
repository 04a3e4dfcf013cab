// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/passes/pipeline/pipeline_plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/group_mma.h"
#include "core/ir/tensor_map.h"
#include "core/ir/verify/spec.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

// What the lines say about boxes.
struct BoxFacts {
  UOp maybe_thread;                              // the number of the thread
  int64_t free_slot = 0;                         // a slot that no BUFFER has
  absl::flat_hash_map<uint32_t, int64_t> spans;  // of arrays that products read
};

BoxFacts ReadBoxFacts(std::span<const UOp> lines) {
  BoxFacts out;
  for (UOp u : lines) {
    if (u.Is(Op::SPECIAL) && static_cast<ir::AxisType>(u.ints()[0]) == ir::AxisType::LOCAL)
      out.maybe_thread = u;
    if (u.Is(Op::BUFFER)) out.free_slot = std::max(out.free_slot, u.slot() + 1);
    if (!u.Is(Op::GROUP_MMA)) continue;
    const ir::GroupMma mma = ir::GroupMma::Of(u);
    out.spans[ir::MaybeBaseOf(u.src(1).src(0)).id()] = mma.a_matrix.span;
    out.spans[ir::MaybeBaseOf(u.src(2).src(0)).id()] = mma.b_matrix.span;
  }
  return out;
}

// Finds the boxes that fill the arrays, if all arrays consist of some.
std::optional<PipelineBoxes> MaybeBoxes(ir::UOpContext& ctx, std::span<const UOp> lines,
                                        const PipelineLoop& loop, int64_t parts) {
  if (loop.nested) return std::nullopt;  // the phases of the barriers would run on
  BoxFacts facts = ReadBoxFacts(lines);
  PipelineBoxes out{.thread = facts.maybe_thread};
  if (!out.thread || !out.thread.src(0).Is(Op::CONST)) return std::nullopt;
  for (const PipelineArray& array : loop.arrays) {
    std::vector<UOp> stores;
    for (UOp store : loop.copies) {
      if (ir::MaybeBaseOf(store.src(0).src(0)) == array.buffer) stores.push_back(store);
    }
    const auto span = facts.spans.find(array.buffer.id());
    auto plan = span == facts.spans.end() || array.buffer.dtype() != Dtype::U32
                    ? std::nullopt
                    : MaybeBulkPlan(ctx, stores, out.thread, span->second);
    if (!plan) return std::nullopt;
    out.bytes += plan->bytes();
    out.plans.push_back(*std::move(plan));
  }
  if (out.bytes >= TensorMap::kMostBytes) return std::nullopt;
  out.first_thread = Lt(ctx, out.thread, ctx.Idx(1));
  const auto barriers = [&] {
    return ir::Buffer(ctx, facts.free_slot++, Dtype::U64, ir::ShapeArg(ctx, ir::Dims{parts}),
                      ir::AddrSpace::LOCAL);
  };
  out.filled = barriers();
  out.free = barriers();
  return out;
}

// Whether nothing but the products of a step reads its part, and the copies need no value that only
// some threads have.
bool MayHaveRoles(ir::UOpContext& ctx, const PipelineLoop& loop, const PipelineBoxes& boxes,
                  const PipelineWay& way) {
  const int64_t threads = boxes.thread.src(0).const_int();
  if (!loop.groups_read_parts || !loop.one_wait || threads + way.producers > way.most_threads)
    return false;
  for (UOp mma : loop.groups) {
    if (threads % ir::GroupMma::Of(mma).lanes != 0) return false;
  }
  if (std::ranges::any_of(loop.arrays, &PipelineArray::loaded)) return false;
  std::vector<UOp> needs = {loop.range.src(0)};
  for (const BulkPlan& plan : boxes.plans) {
    for (const BulkBox& box : plan.boxes) needs.insert(needs.end(), {box.x, box.y});
  }
  return std::ranges::none_of(ir::Toposort(ctx, needs), [](UOp u) { return u.Is(Op::LOAD); });
}

PipelineRoles MakeRoles(ir::UOpContext& ctx, UOp thread, const PipelineWay& way) {
  const int64_t threads = thread.src(0).const_int();
  return {
      .plan = MakeRolePlan(threads, way.producers),
      .thread = ctx.Make(Op::SPECIAL, thread.dtype(),
                         {ctx.Int(thread.src(0).dtype(), threads + way.producers)}, thread.arg()),
      .warp_lanes = way.warp_lanes,
      .warps = threads / way.warp_lanes};
}

}  // namespace

PipelinePlan PlanPipeline(ir::UOpContext& ctx, std::span<const UOp> lines, const PipelineLoop& loop,
                          const PipelineWay& way) {
  PipelinePlan out{.own = way.own, .parts = way.own ? way.parts : 1};
  out.groups_run_on = out.parts > 2 && loop.groups_read_parts;
  out.ahead = out.groups_run_on ? out.parts - 2 : out.parts - 1;
  if (way.own && way.bulk) out.boxes = MaybeBoxes(ctx, lines, loop, out.parts);
  if (out.boxes && way.producers > 0 && MayHaveRoles(ctx, loop, *out.boxes, way)) {
    out.roles = MakeRoles(ctx, out.boxes->thread, way);
    out.boxes->first_thread = Lt(ctx, out.roles->thread, ctx.Idx(1));
    out.groups_run_on = true;
  }
  return out;
}

}  // namespace uopd::codegen
