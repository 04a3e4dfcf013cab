// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/grid.h"

#include <cmath>
#include <string>
#include <vector>

#include "core/codegen/launch_size.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

// The iterations of the loops that u closes, with every variable at its maximum.
double Trips(const PlanView& view, UOp u) {
  double out = 1;
  for (UOp r : u.closed()) out *= static_cast<double>(view.ctx.BoundsOf(r.src(0)).max);
  return out;
}

// Whether the axis may become blocks, however many there are.
bool MayBeGrid(const PlanView& view, size_t axis) {
  const PlanKernel& kernel = view.kernel();
  const PlanAxis& a = view.state.axes[axis];
  if (kernel.in_order) return false;
  if (a.range.axis_type() != ir::AxisType::LOOP || a.is_scanned || !kernel.InEveryEnd(a.range))
    return false;
  if (a.size < 0) {
    std::vector<std::string> variables;
    for (const UOp v : ir::Variables(view.ctx, kernel.sink)) variables.emplace_back(v.text());
    if (!LaunchSize::Of(a.symbolic, variables).ok()) return false;
  }
  // A long reduction that is the same for all iterations is not repeated in each of them, unless an
  // iteration adds up as much itself: a row of a matrix beside the mean of what it is multiplied
  // by.
  double repeated = 0, own = 0;
  for (UOp u : kernel.order) {
    if (!u.Is({Op::REDUCE, Op::STAGE})) continue;
    const double trips = Trips(view, u);
    if (kernel.Along(u, axis)) {
      if (u.Is(Op::REDUCE)) own += trips;
      continue;
    }
    // Copies of operands, which each block needs.
    if (view.state.warp_rows && u.Is(Op::STAGE)) continue;
    if (trips >= kLongRepeated) repeated += u.Is(Op::STAGE) ? INFINITY : trips;
  }
  return repeated <= own;
}

}  // namespace

bool IsGrid(const PlanView& view, size_t axis) {
  if (!MayBeGrid(view, axis)) return false;
  // The inner axes come first, if a launch cannot have so many blocks.
  double blocks = 1;
  for (size_t i = axis; i < view.state.axes.size(); ++i) {
    if (i == axis || MayBeGrid(view, i))
      blocks *= static_cast<double>(view.ctx.BoundsOf(view.state.axes[i].symbolic).max);
  }
  return blocks <= static_cast<double>(view.target.max_grid[0]);
}

}  // namespace uopd::codegen
