// SPDX-License-Identifier: MIT
// TC: a matrix instruction computes a sum of products.
#include <algorithm>

#include "core/codegen/machine.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {
namespace {

absl::Status AddTensorCore(Adding& adding, const Opt& opt) {
  const PlanAxis& axis = adding.Axis(opt);
  if (!axis.is_reduce) return Bad(opt, "the axis is not reduced");
  if (axis.is_merged_away) return Bad(opt, "the axis is a part of another one");
  if (adding.state.instruction) return Bad(opt, "the kernel has a TC already");
  if (std::ranges::any_of(adding.state.axes, [](const PlanAxis& a) { return a.raster > 1; }))
    return Bad(opt, "RASTER comes after what splits its axis");
  const Machine& machine = MachineOf(adding.target);
  if (!adding.state.online) return machine.add_product(adding, opt);
  if (machine.maybe_add_rows == nullptr) return Bad(opt, "the kernel has an ONLINE");
  return machine.maybe_add_rows(adding, opt);
}

// The numbers of instructions.
std::vector<TriedAmount> TensorCoreAmounts(const SearchSpace&, const AxisInfo& axis,
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
