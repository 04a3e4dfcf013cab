// SPDX-License-Identifier: MIT
// Whether TC by a matrix instruction of a warp applies, and what it splits off.
#include <algorithm>
#include <optional>
#include <string>

#include "core/base/text.h"
#include "core/codegen/gpu/product/warp_product.h"
#include "core/codegen/opts/parts.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::UOp;

// The output axis that the first factor depends on and the other does not, or none.
static std::optional<size_t> MaybeOwnAxis(const Adding& adding, UOp factor, UOp other) {
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

absl::Status AddWarpProduct(Adding& adding, const Opt& opt) {
  PlanState& state = adding.state;
  const PlanKernel& kernel = adding.kernel();
  const PlanAxis& axis = adding.Axis(opt);
  if (state.no_locals || kernel.in_order) return Bad(opt, "the kernel runs in one thread");
  if (kernel.has_stages) return Bad(opt, "the kernel stages values");
  if (!axis.parts.empty()) return Bad(opt, "TC is the first opt of its axes");
  UOp sum;
  for (UOp u : kernel.order) {
    if (!PlanKernel::Closes(u, axis.range)) continue;
    if (sum) return Bad(opt, "two sums run along the axis");
    sum = u;
  }
  for (UOp r : sum ? sum.closed() : std::span<const UOp>()) {
    if (state.axes[kernel.AxisOf(r)].HasThreads()) return Bad(opt, "threads share the sum already");
  }
  const auto factors = sum ? SmallFactors(sum) : std::nullopt;
  if (!factors) return Bad(opt, "the sum is not one of products of small elements");
  if (NeedsReduction(adding.ctx, sum)) return Bad(opt, "the products need another reduction");
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
      for (UOp load : kernel.loads) {
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

}  // namespace uopd::codegen
