// SPDX-License-Identifier: MIT
#include "core/codegen/opts/kinds/stream.h"

#include <algorithm>

#include "core/codegen/opts/opt_row.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {
namespace {

absl::Status AddStream(Adding& adding, const Opt& opt) {
  std::vector<ir::UOp>& streamed = adding.state.streamed;
  const ir::UOp store = adding.kernel().stores[static_cast<size_t>(opt.axis)];
  if (std::ranges::find(streamed, store) != streamed.end())
    return Bad(opt, "the store is streamed already");
  streamed.push_back(store);
  return absl::OkStatus();
}

std::vector<Opt> StreamMoves(const MoveSource& from) {
  std::vector<Opt> out;
  for (int store = 0; store < from.kernel.stores; ++store) out.push_back({OptKind::kStream, store});
  return out;
}

}  // namespace

extern const OptRow kStreamRow;

const OptRow kStreamRow = {
    .kind = OptKind::kStream,
    .name = "STREAM",
    .machines = Machines::kCpus,
    .axis = {Operand::Names::kStore, "store"},
    .length = OptRow::Length::kNot,
    .axes_prose = "–",
    .effect = "the store writes around the caches",
    .limits = "see below",
    .add = AddStream,
    .moves = StreamMoves,
};

}  // namespace uopd::codegen
