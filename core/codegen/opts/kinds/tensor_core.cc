// SPDX-License-Identifier: MIT
// TC: a matrix instruction computes a sum of products.
#include <algorithm>
#include <optional>
#include <string>

#include "core/base/text.h"
#include "core/codegen/opts/make/tensor_core.h"
#include "core/codegen/opts/make/warp_product.h"
#include "core/codegen/opts/online/warp_rows.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/parts.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

bool NeedsReduction(const Adding& adding, UOp u) {
  return std::ranges::any_of(ir::Toposort(adding.ctx, u.srcs().first(1)),
                             [](UOp n) { return n.Is(Op::REDUCE); });
}

// An instruction of a CPU, whose operands are vectors of words (make/tensor_core.h).
absl::Status AddOfVectors(Adding& adding, const Opt& opt) {
  PlanAxis& axis = adding.Axis(opt);
  if (adding.kernel().has_stages()) return Bad(opt, "the kernel stages values");
  if (axis.HasBlock()) return Bad(opt, "TC comes before BLOCK of its axis");
  int64_t fits = 0;
  for (const MatrixInstruction& i : RowInstructions(adding.target)) {
    bool computes = true, any = false;
    for (UOp u : adding.kernel().order()) {
      if (!PlanKernel::Closes(u, axis.range)) continue;
      const auto factors = SmallFactors(u);
      computes =
          computes && factors && Computes(i, *factors, u.dtype()) && !NeedsReduction(adding, u);
      any = true;
    }
    if (!computes || !any || ++fits < opt.amount) continue;
    adding.state.instruction = std::make_shared<const MatrixInstruction>(i);
    adding.state.sum_axis = static_cast<size_t>(opt.axis);
    SplitOff(adding.ctx, axis,
             {.type = AxisType::UNROLL, .amount = i.k, .outer = false, .group = true},
             axis.size >= 0 && axis.size % i.k == 0);
    return absl::OkStatus();
  }
  return Bad(opt, Cat(fits, " matrix instructions of the target compute its sums"));
}

// The output axis that the first factor depends on and the other does not, or none.
std::optional<size_t> MaybeOwnAxis(const Adding& adding, UOp factor, UOp other) {
  const PlanKernel& kernel = adding.kernel();
  std::optional<size_t> best;
  for (size_t i = 0; i < adding.state.axes.size(); ++i) {
    const PlanAxis& a = adding.state.axes[i];
    if (a.is_reduce || a.is_scanned || !kernel.Along(factor, i) || kernel.Along(other, i)) continue;
    if (a.size < 0 || !a.parts.empty() || !kernel.InEveryEnd(a.range)) continue;
    if (!best || a.size > adding.state.axes[*best].size) best = i;
  }
  return best;
}

// An instruction whose operands lie in the registers of a warp, or in shared memory (make/warp_product.h).
absl::Status AddOfWarp(Adding& adding, const Opt& opt) {
  PlanState& state = adding.state;
  const PlanKernel& kernel = adding.kernel();
  const PlanAxis& axis = adding.Axis(opt);
  if (state.no_locals || kernel.in_order()) return Bad(opt, "the kernel runs in one thread");
  if (kernel.has_stages()) return Bad(opt, "the kernel stages values");
  if (!axis.parts.empty()) return Bad(opt, "TC is the first opt of its axes");
  UOp sum;
  for (UOp u : kernel.order()) {
    if (!PlanKernel::Closes(u, axis.range)) continue;
    if (sum) return Bad(opt, "two sums run along the axis");
    sum = u;
  }
  for (UOp r : sum ? sum.closed() : std::span<const UOp>()) {
    if (state.axes[kernel.AxisOf(r)].HasThreads()) return Bad(opt, "threads share the sum already");
  }
  const auto factors = sum ? SmallFactors(sum) : std::nullopt;
  if (!factors) return Bad(opt, "the sum is not one of products of small elements");
  if (NeedsReduction(adding, sum)) return Bad(opt, "the products need another reduction");
  const auto rows = MaybeOwnAxis(adding, factors->a, factors->b),
             columns = MaybeOwnAxis(adding, factors->b, factors->a);
  if (!rows || !columns) return Bad(opt, "the factors share all axes");
  int64_t fits = 0;
  for (const MatrixInstruction& i : adding.target.matrix_instructions) {
    if (!i.of_warp() || !Computes(i, *factors, sum.dtype())) continue;
    if (i.sum_place.lanes() != adding.target.warp_lanes && !i.in_shared()) continue;
    if (++fits < opt.amount) continue;
    if (i.in_shared()) {
      if (const std::string why = MaybeNoGroup(adding.view(), *factors); !why.empty())
        return Bad(opt, why);
      for (UOp load : kernel.loads()) {
        const bool mine =
            ir::Reaches(adding.ctx, factors->a, load) || ir::Reaches(adding.ctx, factors->b, load);
        if (mine && std::ranges::find(state.packed, load) == state.packed.end())
          state.packed.push_back(load);
      }
    }
    state.instruction = std::make_shared<const MatrixInstruction>(i);
    state.sum_axis = static_cast<size_t>(opt.axis);
    state.rows_axis = *rows;
    state.columns_axis = *columns;
    const auto split = [&](size_t number, int64_t amount) {
      PlanAxis& a = state.axes[number];
      SplitOff(adding.ctx, a,
               {.type = AxisType::LOOP, .amount = amount, .outer = false, .mma = true},
               a.size >= 0 && a.size % amount == 0);
    };
    split(state.sum_axis, i.k);
    split(state.rows_axis, i.m);
    split(state.columns_axis, i.n);
    return absl::OkStatus();
  }
  return Bad(opt, Cat(fits, " matrix instructions of the target compute its sums"));
}

// Both products of attention (online/warp_rows.h).
absl::Status AddOfRows(Adding& adding, const Opt& opt) {
  if (!adding.target.blocks) return Bad(opt, "the kernel has an ONLINE");
  if (adding.before.size() != 1) return Bad(opt, "TC comes directly after ONLINE");
  UOPD_ASSIGN(const WarpRowsKernel made,
              MakeWarpRows(adding.ctx, adding.kernel().sink(), adding.target,
                           adding.Axis(opt).range, opt.amount));
  adding.state.Become(std::make_shared<const PlanKernel>(adding.ctx, made.sink, adding.target));
  WarpRowsSize size{.rows = made.number_of_rows,
                    .tile_rows = made.tile_rows,
                    .registers = made.registers,
                    .copies = made.copies};
  const std::vector<PlanAxis>& axes = adding.state.axes;
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].range == made.rows) size.rows_axis = a;
    if (axes[a].is_blocks) size.blocks_axis = a;
    const bool output =
        axes[a].range.axis_type() == AxisType::LOOP && adding.kernel().InEveryEnd(axes[a].range);
    if (output) size.tiles *= static_cast<double>(adding.ctx.BoundsOf(axes[a].symbolic).max);
  }
  adding.state.warp_rows = size;
  return absl::OkStatus();
}

absl::Status AddTensorCore(Adding& adding, const Opt& opt) {
  const PlanAxis& axis = adding.Axis(opt);
  if (!axis.is_reduce) return Bad(opt, "the axis is not reduced");
  if (axis.is_merged_away) return Bad(opt, "the axis is a part of another one");
  if (adding.state.instruction) return Bad(opt, "the kernel has a TC already");
  if (std::ranges::any_of(adding.state.axes, [](const PlanAxis& a) { return a.raster > 1; }))
    return Bad(opt, "RASTER comes after what splits its axis");
  if (adding.state.online) return AddOfRows(adding, opt);
  return adding.target.blocks ? AddOfWarp(adding, opt) : AddOfVectors(adding, opt);
}

// The numbers of instructions.
std::vector<TriedAmount> TensorCoreAmounts(const KernelInfo&, const AxisInfo& axis,
                                           const Target& target) {
  std::vector<TriedAmount> out;
  if (!axis.is_reduce || axis.size == 1) return out;
  for (int64_t n = 1; n <= std::ssize(target.matrix_instructions); ++n) out.emplace_back(n);
  return out;
}

}  // namespace

extern const OptRow kTensorCoreRow;

const OptRow kTensorCoreRow = {
    .kind = OptKind::kTensorCore,
    .name = "TC",
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kInstruction, "i"},
    .axes_prose = "of sums of products",
    .effect = "splits off inner parts: the elements that one matrix instruction takes together",
    .limits = "see below; once per kernel",
    .add = AddTensorCore,
    .makes_lanes = true,
    .amounts = TensorCoreAmounts,
};

}  // namespace uopd::codegen
