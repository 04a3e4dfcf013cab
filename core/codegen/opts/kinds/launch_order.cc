// SPDX-License-Identifier: MIT
// SWAP, RASTER and PERSIST: the order in which the blocks of a launch are numbered, and how many
// there are.
#include "core/codegen/gpu/grid.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/opts/opt_row.h"

namespace uopd::codegen {
namespace {

absl::Status AddSwap(Adding& adding, const Opt& opt) {
  const auto a = static_cast<size_t>(opt.axis), b = static_cast<size_t>(opt.amount);
  if (a == b) return Bad(opt, "both axes are the same");
  if (!IsGrid(adding.view(), a) || !IsGrid(adding.view(), b))
    return Bad(opt, "an axis has no iterations that are blocks");
  std::swap(adding.state.axes[a].rank, adding.state.axes[b].rank);
  return absl::OkStatus();
}

absl::Status AddRaster(Adding& adding, const Opt& opt) {
  const auto number = static_cast<size_t>(opt.axis);
  std::vector<PlanAxis>& axes = adding.state.axes;
  PlanAxis& axis = axes[number];
  if (opt.amount < 2) return Bad(opt, "the amount is below 2");
  if (!IsGrid(adding.view(), number)) return Bad(opt, "the axis has no iterations that are blocks");
  if (axis.raster > 1) return Bad(opt, "the axis has a RASTER already");
  if (axis.size < 0 || axis.size % opt.amount != 0)
    return Bad(opt, "the amount does not divide the blocks of the axis");
  bool others = false;
  for (size_t i = 0; i < axes.size(); ++i)
    others |=
        i != number && axes[i].rank > axis.rank && axes[i].size != 1 && IsGrid(adding.view(), i);
  if (!others) return Bad(opt, "no other blocks come between those of the axis");
  axis.raster = opt.amount;
  return absl::OkStatus();
}

absl::Status AddPersist(Adding& adding, const Opt& opt) {
  const PlanKernel& kernel = adding.kernel();
  if (opt.amount < 1 || opt.amount > adding.target.max_grid[0])
    return Bad(opt, Cat("the amount is not in 1 to ", adding.target.max_grid[0]));
  if (kernel.in_order) return Bad(opt, "a statement loads what another one stores");
  double blocks = 1;
  for (size_t i = 0; i < adding.state.axes.size(); ++i) {
    const PlanAxis& a = adding.state.axes[i];
    if (!IsGrid(adding.view(), i)) continue;
    // A block without work may load before its loop what another block stores.
    if (a.size < 0 && kernel.in_place)
      return Bad(opt, "the kernel loads what it stores, and an axis has a symbolic size");
    blocks *= static_cast<double>(a.size >= 0 ? a.size : adding.ctx.BoundsOf(a.symbolic).max);
  }
  if (blocks <= static_cast<double>(opt.amount)) return Bad(opt, "the launch has no more blocks");
  adding.state.persists = true;
  return absl::OkStatus();
}

std::vector<Opt> SwapMoves(const MoveSource& from) {
  std::vector<Opt> out;
  if (from.Has(OptKind::kSwap)) return out;
  for (size_t a = 0; a < from.axes.size(); ++a) {
    for (size_t b = a + 1; b < from.axes.size(); ++b) {
      if (!from.axes[a].is_reduce && !from.axes[b].is_reduce)
        out.push_back({OptKind::kSwap, static_cast<int>(a), static_cast<int64_t>(b)});
    }
  }
  return out;
}

std::vector<TriedAmount> RasterAmounts(const SearchSpace& kernel, const AxisInfo& axis,
                                       const Target&) {
  // Without a reduction, blocks read nothing in common.
  const bool reduces = std::ranges::any_of(kernel.axes, &AxisInfo::is_reduce);
  if (!reduces || axis.is_reduce || axis.size <= 1) return {};
  return {4, 8, 16};
}

// One or two blocks for each processor.
std::vector<Opt> PersistMoves(const MoveSource& from) {
  if (from.Has(OptKind::kPersist)) return {};
  return {{OptKind::kPersist, 0, from.target.units}, {OptKind::kPersist, 0, 2 * from.target.units}};
}

}  // namespace

extern const OptRow kSwapRow, kRasterRow, kPersistRow;

const OptRow kSwapRow = {
    .kind = OptKind::kSwap,
    .name = "SWAP",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kAxis, "other"},
    .length = OptRow::Length::kNot,
    .axes_prose = "two output axes",
    .effect = "the blocks of the axes are numbered in another order",
    .limits = "both axes have blocks",
    .add = AddSwap,
    .moves = SwapMoves,
};

const OptRow kRasterRow = {
    .kind = OptKind::kRaster,
    .name = "RASTER",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kNumber, "n"},
    .length = OptRow::Length::kNot,
    .axes_prose = "output, with blocks",
    .effect =
        "n neighbouring blocks of the axis have neighbouring numbers, before those of the axes "
        "after it: blocks that "
        "run at the same time read fewer different rows and columns",
    .limits = "divides the blocks of the axis; after what splits the axis",
    .add = AddRaster,
    .amounts = RasterAmounts,
};

const OptRow kPersistRow = {
    .kind = OptKind::kPersist,
    .name = "PERSIST",
    .machines = Machines::kGpus,
    .amount = {Operand::Names::kNumber, "n"},
    .length = OptRow::Length::kNot,
    .axes_prose = "–",
    .effect = "the launch has n blocks, and each does every n-th part of the work in a loop",
    .limits = "less than the blocks without it; the last opt",
    .add = AddPersist,
    .moves = PersistMoves,
};

}  // namespace uopd::codegen
