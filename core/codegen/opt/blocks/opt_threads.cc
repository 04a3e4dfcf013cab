// SPDX-License-Identifier: MIT
// OptPlan: the opts of targets whose launches are grids of blocks.
//
//   LOCAL(axis, n)     n iterations of an output axis are threads of a block
//   GROUP(axis, n)     n neighbouring iterations of a reduced axis, or of a stage, are threads of a block
//   GROUPTOP(axis, n)  the same of iterations that are far apart: each thread has a stretch of the axis
//   MERGE(axis, other) two axes become one (merge_axes.h)
//   SWAP(axis, other)  exchanges the places of two axes in the order of the blocks
//   PADTO(axis, n)     the rest of the axis is rounded up to a multiple of n
//   NOLOCALS(0, 0)     a block has one thread
//   RASTER(axis, n)    blocks of n neighbouring iterations of an output axis have neighbouring numbers: blocks that run
//                      at the same time read fewer different rows and columns
//   PERSIST(0, n)      the launch has n blocks; each of them does every n-th part of the work
#include <algorithm>
#include <bit>

#include "core/base/text.h"
#include "core/codegen/launch_size.h"
#include "core/codegen/opt/merge_axes.h"
#include "core/codegen/opt/opt_plan.h"
#include "core/codegen/opt/pipeline_form.h"
#include "core/codegen/passes/blocks/map_threads.h"
#include "core/codegen/passes/blocks/shared_stage.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::Op;
using ir::UOp;

namespace {
constexpr int64_t kMostPadding = 4;  // of an axis, times its size
// A loop with at least this many iterations is not repeated in each block.
constexpr double kLongRepeated = 64;
}  // namespace

absl::Status OptPlan::Local(Axis& axis, const Opt& opt, int64_t amount, bool divides) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  if (no_locals_) return Bad(opt, "the kernel has NOLOCALS");
  if (in_order_) return Bad(opt, "a statement loads what another one stores");
  if (axis.is_reduce) return Bad(opt, "the axis is reduced; use GROUP");
  if (axis.is_scanned) return Bad(opt, "running sums run along the axis");
  if (!std::has_single_bit(static_cast<uint64_t>(amount)))
    return Bad(opt, "the amount is no power of two");
  return SplitOff(axis, {AxisType::LOCAL, amount, false}, divides);
}

absl::Status OptPlan::Group(Axis& axis, const Opt& opt, int64_t amount, bool divides) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  if (no_locals_) return Bad(opt, "the kernel has NOLOCALS");
  if (in_order_) return Bad(opt, "a statement loads what another one stores");
  if (!axis.is_reduce) return Bad(opt, "the axis is not reduced; use LOCAL");
  if (!std::has_single_bit(static_cast<uint64_t>(amount)))
    return Bad(opt, "the amount is no power of two");
  for (UOp u : order_) {
    const auto closed = u.closed();
    if (IsTensorCore(u) && std::ranges::find(closed, axis.range) != closed.end())
      return Bad(opt, "a warp adds up the axis already (TC)");
    if (u.Is(Op::STAGE) && std::ranges::find(closed, axis.range) != closed.end() &&
        !ir::Reaches(ctx_, u.src(1), axis.range))
      return Bad(opt, "iterations along the axis stage the same element");
  }
  const bool top = opt.kind == OptKind::kGroupTop;
  if (top && axis.size < 0) return Bad(opt, "the axis has a symbolic size");
  return SplitOff(axis, {AxisType::LOCAL, amount, top}, divides);
}

absl::Status OptPlan::Swap(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  const auto count = static_cast<int64_t>(axes_.size());
  if (opt.axis < 0 || opt.axis >= count || opt.amount < 0 || opt.amount >= count)
    return Bad(opt, Cat("the kernel has ", count, " axes"));
  const auto a = static_cast<size_t>(opt.axis), b = static_cast<size_t>(opt.amount);
  if (a == b) return Bad(opt, "both axes are the same");
  if (!IsGrid(a) || !IsGrid(b)) return Bad(opt, "an axis has no iterations that are blocks");
  std::swap(axes_[a].rank, axes_[b].rank);
  return absl::OkStatus();
}

absl::Status OptPlan::PadTo(Axis& axis, const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  if (axis.size < 0) return Bad(opt, "the axis has a symbolic size");
  if (axis.is_scanned) return Bad(opt, "running sums run along the axis");
  if (opt.amount < 2) return Bad(opt, "the amount is below 2");
  if (axis.size % opt.amount == 0) return Bad(opt, "the amount divides the axis");
  const int64_t size = (axis.size + opt.amount - 1) / opt.amount * opt.amount;
  if (size >= kMostPadding * axis.size) return Bad(opt, "the axis would be mostly padding");
  axis.size = size;
  axis.padded = true;
  return absl::OkStatus();
}

absl::Status OptPlan::NoLocals(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  if (opt.axis != 0 || opt.amount != 0) return Bad(opt, "NOLOCALS has no axis and no amount");
  if (no_locals_) return Bad(opt, "the kernel has NOLOCALS already");
  for (const Axis& axis : axes_) {
    for (const Axis::Part& p : axis.parts) {
      if (p.type == AxisType::LOCAL) return Bad(opt, "the kernel has threads already");
    }
  }
  no_locals_ = true;
  return absl::OkStatus();
}

absl::Status OptPlan::PipelineOf(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  const auto count = static_cast<int64_t>(axes_.size());
  if (opt.axis < 0 || opt.axis >= count) return Bad(opt, Cat("the kernel has ", count, " axes"));
  const Axis& axis = axes_[static_cast<size_t>(opt.axis)];
  if (!axis.is_reduce || !(warp_rows_ ? axis.is_blocks : axis.HasBlock()))
    return Bad(opt, "the axis is not cut by BLOCK");
  if (packed_.empty() && !warp_rows_) return Bad(opt, "nothing is packed");
  if (pipelined_) return Bad(opt, "the kernel has a PIPELINE already");
  if (warp_rows_) {
    int64_t threads = target_.warp_lanes;
    for (const Axis::Part& p : axes_[warp_rows_->rows_axis].parts)
      threads *= p.type == AxisType::LOCAL ? p.amount : 1;
    if (!target_.async_copies || warp_rows_->copies > kMostTurns * threads)
      return Bad(opt, "a thread copies too much in a step");
  }
  const PipelineForm form = PipelineForm::Of(opt.amount);
  if (!form.IsValid())
    return Bad(opt, Cat("the amount is not 2 to ", PipelineForm::kMostParts,
                        ", or 10 or 40 more for one or four warps that copy"));
  if (form.producer_warps > 0 &&
      (!target_.bulk_copies || !instruction_ || !instruction_->in_shared()))
    return Bad(opt, "no box that a warp copies is read by products of groups");
  if (!target_.async_copies && form.parts > 2)
    return Bad(opt, "the target has no copies that run on their own: the amount is 2");
  if (target_.async_copies) parts_ = form.parts;
  pipelined_ = true;
  return absl::OkStatus();
}

absl::Status OptPlan::Merge(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  if (std::ranges::any_of(opts_, [](const Opt& o) { return o.kind != OptKind::kMerge; }))
    return Bad(opt, "MERGE comes before all other opts");
  const auto axes = static_cast<int64_t>(axes_.size());
  if (opt.axis < 0 || opt.axis >= axes || opt.amount < 0 || opt.amount >= axes)
    return Bad(opt, Cat("the kernel has ", axes, " axes"));
  const UOp outer = axes_[static_cast<size_t>(opt.axis)].range,
            inner = axes_[static_cast<size_t>(opt.amount)].range;
  if (const std::string why = MaybeNoMerge(ctx_, sink_, outer, inner); !why.empty())
    return Bad(opt, why);
  Read(MergeAxes(ctx_, sink_, outer, inner));
  return absl::OkStatus();
}

absl::Status OptPlan::Raster(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  const auto count = static_cast<int64_t>(axes_.size());
  if (opt.axis < 0 || opt.axis >= count) return Bad(opt, Cat("the kernel has ", count, " axes"));
  const auto number = static_cast<size_t>(opt.axis);
  Axis& axis = axes_[number];
  if (opt.amount < 2) return Bad(opt, "the amount is below 2");
  if (!IsGrid(number)) return Bad(opt, "the axis has no iterations that are blocks");
  if (axis.raster > 1) return Bad(opt, "the axis has a RASTER already");
  if (axis.size < 0 || axis.size % opt.amount != 0)
    return Bad(opt, "the amount does not divide the blocks of the axis");
  bool others = false;
  for (size_t i = 0; i < axes_.size(); ++i)
    others |= i != number && axes_[i].rank > axis.rank && axes_[i].size != 1 && IsGrid(i);
  if (!others) return Bad(opt, "no other blocks come between those of the axis");
  axis.raster = opt.amount;
  return absl::OkStatus();
}

absl::Status OptPlan::Persist(const Opt& opt) {
  if (!target_.blocks) return Bad(opt, "the target has no blocks");
  if (opt.axis != 0) return Bad(opt, "PERSIST has no axis");
  if (opt.amount < 1 || opt.amount > target_.max_grid[0])
    return Bad(opt, Cat("the amount is not in 1 to ", target_.max_grid[0]));
  if (in_order_) return Bad(opt, "a statement loads what another one stores");
  double blocks = 1;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Axis& a = axes_[i];
    if (!IsGrid(i)) continue;
    // A block without work may load before its loop what another block stores.
    if (a.size < 0 && in_place_)
      return Bad(opt, "the kernel loads what it stores, and an axis has a symbolic size");
    blocks *= static_cast<double>(a.size >= 0 ? a.size : ctx_.BoundsOf(a.symbolic).max);
  }
  if (blocks <= static_cast<double>(opt.amount)) return Bad(opt, "the launch has no more blocks");
  persists_ = true;
  return absl::OkStatus();
}

double OptPlan::Trips(UOp u) const {
  double out = 1;
  for (UOp r : u.closed()) out *= static_cast<double>(ctx_.BoundsOf(r.src(0)).max);
  return out;
}

bool OptPlan::IsGrid(size_t axis) const {
  if (!target_.blocks || !MayBeGrid(axis)) return false;
  // The inner axes come first, if a launch cannot have so many blocks.
  double blocks = 1;
  for (size_t i = axis; i < axes_.size(); ++i) {
    if (i == axis || MayBeGrid(i))
      blocks *= static_cast<double>(ctx_.BoundsOf(axes_[i].symbolic).max);
  }
  return blocks <= static_cast<double>(target_.max_grid[0]);
}

bool OptPlan::MayBeGrid(size_t axis) const {
  const Axis& a = axes_[axis];
  if (in_order_) return false;
  if (a.range.axis_type() != AxisType::LOOP || a.is_scanned || !InEveryEnd(a.range)) return false;
  if (a.size < 0) {
    std::vector<std::string> variables;
    for (const UOp v : ir::Variables(ctx_, sink_)) variables.emplace_back(v.text());
    if (!LaunchSize::Of(a.symbolic, variables).ok()) return false;
  }
  // A long reduction that is the same for all iterations is not repeated in each of them, unless an iteration adds up as much
  // itself: a row of a matrix beside the mean of what it is multiplied by.
  double repeated = 0, own = 0;
  for (UOp u : order_) {
    if (!u.Is({Op::REDUCE, Op::STAGE})) continue;
    const double trips = Trips(u);
    if (Along(u, axis)) {
      if (u.Is(Op::REDUCE)) own += trips;
      continue;
    }
    if (warp_rows_ && u.Is(Op::STAGE)) continue;  // copies of operands, which each block needs
    if (trips >= kLongRepeated) repeated += u.Is(Op::STAGE) ? INFINITY : trips;
  }
  return repeated <= own;
}

int64_t OptPlan::SharedBytes() {
  const auto mapped = MapThreads(ctx_, Make(), target_);
  return mapped.ok() ? StagedBytes(ctx_, mapped->sink).shared_bytes : 0;
}

std::string OptPlan::BlockTooLarge(UOp made) const {
  const auto mapped = MapThreads(ctx_, made, target_);
  if (!mapped.ok()) return StatusText(mapped.status());
  const StagedSizes sizes = StagedBytes(ctx_, mapped->sink);
  const int64_t shared = sizes.shared_bytes * parts_;
  if (shared <= target_.shared_bytes) return "";
  return Cat("a block would share ", shared, " bytes; one of the target has ",
             target_.shared_bytes);
}

}  // namespace uopd::codegen
