// SPDX-License-Identifier: MIT
// MERGE: two axes become one (make/merge_axes.h).
#include <algorithm>
#include <string>

#include "core/codegen/opts/make/merge_axes.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {
namespace {

absl::Status AddMerge(Adding& adding, const Opt& opt) {
  if (std::ranges::any_of(adding.before, [](const Opt& o) { return o.kind != OptKind::kMerge; }))
    return Bad(opt, "MERGE comes before all other opts");
  const ir::UOp sink = adding.kernel().sink, outer = adding.Axis(opt).range,
                inner = adding.state.axes[static_cast<size_t>(opt.amount)].range;
  if (const std::string why = MaybeNoMerge(adding.ctx, sink, outer, inner); !why.empty())
    return Bad(opt, why);
  adding.state.Become(
      std::make_shared<const PlanKernel>(adding.ctx, MergeAxes(adding.ctx, sink, outer, inner)));
  return absl::OkStatus();
}

std::vector<Opt> MergeMoves(const MoveSource& from) {
  std::vector<Opt> out;
  if (from.Has(OptKind::kOnline)) return out;
  for (const auto& [a, b] : from.kernel.merges) {
    if (from.axes[static_cast<size_t>(a)].size > 1 && from.axes[static_cast<size_t>(b)].size > 1)
      out.push_back({OptKind::kMerge, a, b});
  }
  return out;
}

}  // namespace

extern const OptRow kMergeRow;

const OptRow kMergeRow = {
    .kind = OptKind::kMerge,
    .name = "MERGE",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kAxis, "other"},
    .axes_prose = "two output axes, or two of the same reductions",
    .effect = "the axes become one, at the place of `axis`; `other` varies fastest",
    .limits = "see below; before all other opts",
    .add = AddMerge,
    .keeps_size = true,  // no other arrays and threads
    .moves = MergeMoves,
};

}  // namespace uopd::codegen
