// SPDX-License-Identifier: MIT
#include "core/codegen/opts/make/making.h"

#include <algorithm>

#include "core/codegen/machine.h"
#include "core/codegen/passes/open_ranges.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

using ir::AxisType;
using ir::UOp;

UOp AndValid(ir::UOpContext& ctx, UOp maybe_valid, const MadeAxis& axis) {
  if (!maybe_valid || !axis.maybe_valid) return maybe_valid ? maybe_valid : axis.maybe_valid;
  return And(ctx, maybe_valid, axis.maybe_valid);
}

std::vector<PackPart> PartsOf(const Making& making, UOp value, bool reduced) {
  const std::vector<PlanAxis>& axes = making.state().axes;
  // A range that a STAGE inside of the value closes is no loop of the copy.
  const OpenRanges open(making.ctx(), value);
  std::vector<PackPart> parts;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MadeAxis& made = making.axes[i];
    if (axes[i].is_reduce && !reduced) continue;
    if (made.maybe_mma && open.Varies(value, made.maybe_mma))
      parts.push_back({made.maybe_mma, i, made.mma_stride, axes[i].is_reduce});
    for (size_t k = 0; k < made.ranges.size(); ++k) {
      const UOp r = made.ranges[k];
      const bool around = r.axis_type() == AxisType::LOOP || r.axis_type() == AxisType::THREAD ||
                          r.axis_type() == AxisType::GLOBAL;
      if ((!around || made.in_loop[k]) && open.Varies(value, r))
        parts.push_back(
            {r, i, made.strides[k], axes[i].is_reduce, made.in_loop[k] && !axes[i].is_reduce});
    }
  }
  return parts;
}

UOp MakePacked(Making& making, UOp value, bool in_rows) {
  std::vector<PackPart> parts = PartsOf(making, value, true);
  for (PackPart& p : parts) p.in_rows = in_rows && p.axis == making.state().sum_axis;
  if (parts.empty()) return value;
  return MachineOf(making.plan.target).pack(making.ctx(), value, parts, making.next_id);
}

bool IsPacked(const PlanView& plan, UOp u) {
  return std::ranges::any_of(plan.state.packed,
                             [&](UOp load) { return ir::Reaches(plan.ctx, u, load); });
}

bool IsStepped(const PlanState& state, const PlanAxis& axis) {
  if (!axis.is_reduce) return false;
  if (axis.HasPanel()) return true;
  if (!state.instruction || !state.instruction->in_shared()) return false;
  return std::ranges::any_of(state.kernel->order, [&](UOp u) {
    return state.IsMmaSum(u) && PlanKernel::Closes(u, axis.range);
  });
}

}  // namespace uopd::codegen
