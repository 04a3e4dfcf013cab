// SPDX-License-Identifier: MIT
#include "core/codegen/opts/kinds/pipeline.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/gpu/passes/threads/shared_stage.h"
#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {
namespace {

absl::Status AddPipelineOpt(Adding& adding, const Opt& opt) {
  PlanState& state = adding.state;
  const Target& target = adding.target;
  const PlanAxis& axis = adding.Axis(opt);
  if (!axis.is_reduce || !(state.warp_rows ? axis.is_key_tiles : axis.HasPanel()))
    return Bad(opt, "the axis is not cut by BLOCK");
  if (state.packed.empty() && !state.warp_rows) return Bad(opt, "nothing is packed");
  if (state.pipelined) return Bad(opt, "the kernel has a PIPELINE already");
  if (state.warp_rows) {
    int64_t threads = target.warp_lanes;
    for (const PlanAxis::Part& p : state.axes[state.warp_rows->rows_axis].parts)
      threads *= p.type == ir::AxisType::LOCAL ? p.amount : 1;
    if (!target.async_copies || state.warp_rows->copies > kMostTurns * threads)
      return Bad(opt, "a thread copies too much in a step");
  }
  if (opt.amount < 2 || opt.amount > kMostPipelineParts)
    return Bad(opt, Cat("the number of parts is not 2 to ", kMostPipelineParts));
  if (std::ranges::find(kCopyingWarps, opt.warps) == kCopyingWarps.end())
    return Bad(opt, "the number of warps that copy is not 0, 1 or 4");
  if (opt.warps > 0 &&
      (!target.bulk_copies || !state.instruction || !state.instruction->in_shared()))
    return Bad(opt, "no box that a warp copies is read by products of groups");
  if (!target.async_copies && opt.amount > 2)
    return Bad(opt, "the target has no copies that run on their own: the amount is 2");
  if (target.async_copies) state.parts = opt.amount;
  state.pipelined = true;
  return absl::OkStatus();
}

std::vector<TriedAmount> PipelineAmounts(const SearchSpace&, const AxisInfo& axis,
                                         const Target& target) {
  std::vector<TriedAmount> out;
  if (!axis.is_reduce) return out;
  out.emplace_back(2);
  if (target.async_copies) out.insert(out.end(), {3, 4});
  if (!target.bulk_copies) return out;
  for (const int64_t warps : {1, 4}) out.insert(out.end(), {{3, warps}, {4, warps}});
  return out;
}

}  // namespace

extern const OptRow kPipelineRow;

const OptRow kPipelineRow = {
    .kind = OptKind::kPipeline,
    .name = "PIPELINE",
    .machines = Machines::kGpus,
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kNumber, "parts"},
    .warps = {Operand::Names::kNumber, "warps", true},
    .axes_prose = "of a reduction, with BLOCK or ONLINE",
    .effect =
        "what is packed is copied for the next parts - 1 steps while the threads compute one; "
        "`warps` of the block copy "
        "and do not compute",
    .limits =
        "2 to 8 parts, or 2 without `Target::async_copies`; 0, 1 or 4 warps; after PACK, once per "
        "kernel",
    .add = AddPipelineOpt,
    .amounts = PipelineAmounts,
};

}  // namespace uopd::codegen
