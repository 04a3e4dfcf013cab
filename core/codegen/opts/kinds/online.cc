// SPDX-License-Identifier: MIT
// ONLINE: the row of a maximum is computed in key tiles (attention/online/online.h).
#include "core/codegen/attention/online/online.h"

#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {
namespace {

absl::Status AddOnline(Adding& adding, const Opt& opt) {
  if (!adding.before.empty()) return Bad(opt, "ONLINE comes before all other opts");
  UOPD_ASSIGN(const ir::UOp made,
              MakeOnline(adding.ctx, adding.kernel().sink, adding.Axis(opt).range, opt.amount));
  adding.state.Become(std::make_shared<const PlanKernel>(adding.ctx, made));
  adding.state.online = true;
  return absl::OkStatus();
}

}  // namespace

extern const OptRow kOnlineRow;

// The search has no moves: the opt changes what all others count, so the heuristic alone chooses
// it.
const OptRow kOnlineRow = {
    .kind = OptKind::kOnline,
    .name = "ONLINE",
    .axis = {Operand::Names::kAxis, "axis"},
    .amount = {Operand::Names::kNumber, "n"},
    .axes_prose = "of a maximum over a row",
    .effect = "the row is computed in key tiles of n elements",
    .limits =
        "see below; before all other opts, which count the axes and loads of the kernel that it "
        "makes",
    .add = AddOnline,
    .makes_stages = true,
};

}  // namespace uopd::codegen
