// SPDX-License-Identifier: MIT
// PACK: a load reads a copy whose elements lie in the order in which the inner loops read them
// (make/pack_value.h).
#include <algorithm>

#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

constexpr double kMostPacked = 1e9;  // elements: what counts the bytes of a copy cannot overflow

absl::Status AddPack(Adding& adding, const Opt& opt) {
  PlanState& state = adding.state;
  const PlanKernel& kernel = adding.kernel();
  if (state.warp_rows) return Bad(opt, "a matrix instruction has copies of what it multiplies");
  const UOp load = kernel.loads[static_cast<size_t>(opt.axis)];
  if (std::ranges::find(state.packed, load) != state.packed.end())
    return Bad(opt, "the load is packed already");
  for (UOp u : ir::Toposort(adding.ctx, load.src(0))) {
    if (u.Is({ir::Op::REDUCE, ir::Op::SCAN}))
      return Bad(opt, "the address needs a reduction or a running sum");
  }
  double elements = 1;  // a double: a product of sizes may exceed 64 bits
  bool reduced = false;
  for (size_t i = 0; i < state.axes.size(); ++i) {
    if (!state.axes[i].is_reduce || !kernel.Along(load, i)) continue;
    reduced = true;
    if (state.axes[i].size < 0) return Bad(opt, "a reduced axis has a symbolic size");
    elements *= static_cast<double>(state.axes[i].size);
  }
  if (elements > kMostPacked) return Bad(opt, "the reduced axes are too long");
  if (!reduced) return Bad(opt, "the load does not depend on a reduced axis");
  state.packed.push_back(load);
  return absl::OkStatus();
}

std::vector<Opt> PackMoves(const MoveSource& from) {
  std::vector<Opt> out;
  for (int load = 0; load < from.kernel.loads; ++load) out.push_back({OptKind::kPack, load});
  return out;
}

}  // namespace

extern const OptRow kPackRow;

const OptRow kPackRow = {
    .kind = OptKind::kPack,
    .name = "PACK",
    .axis = {Operand::Names::kLoad, "load"},
    .length = OptRow::Length::kLonger,
    .axes_prose = "–",
    .effect = "copies what the load reads",
    .limits = "see below",
    .add = AddPack,
    .makes_stages = true,
    .moves = PackMoves,
};

}  // namespace uopd::codegen
