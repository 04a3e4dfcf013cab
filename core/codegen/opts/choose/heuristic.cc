// SPDX-License-Identifier: MIT
#include "core/codegen/opts/choose/heuristic.h"

#include "core/base/text.h"
#include "core/codegen/attention/online/choose_online.h"
#include "core/codegen/machine.h"
#include "core/codegen/opts/plan_kernel.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {

namespace {
constexpr size_t kMostAxes = 60;  // bits of an AxisSet, and some
}  // namespace

std::vector<Opt> HeuristicOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target) {
  const Machine& machine = MachineOf(target);
  if (machine.maybe_choose_rows != nullptr) {
    if (std::vector<Opt> opts = machine.maybe_choose_rows(ctx, sink, target); !opts.empty())
      return opts;
  }
  if (const auto online = ChooseOnline(ctx, sink, target)) {
    std::vector<Opt> out = {online->opt};
    if (rewrite::TracesNotes()) {
      rewrite::TraceNote(
          Cat("computes rows in key tiles, because arrays for whole rows are larger than ",
              machine.row_bytes(target), " bytes: ", Text(out)));
    }
    const std::vector<Opt> others = HeuristicOpts(ctx, online->sink, target);
    out.insert(out.end(), others.begin(), others.end());
    return out;
  }
  const size_t axes = Axes(ctx, sink).size();
  if (axes == 0 || axes > kMostAxes) return {};
  return machine.choose(ctx, sink, target);
}

}  // namespace uopd::codegen
