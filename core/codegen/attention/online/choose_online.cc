// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online/choose_online.h"

#include <algorithm>

#include "core/codegen/attention/online/online.h"
#include "core/codegen/machine.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kLeastKeyTile = 16;  // elements

// About `wanted`, and if possible a divisor of the row: then no element is padding.
int64_t KeyTileOf(int64_t row, int64_t wanted) {
  for (int64_t n = wanted; 2 * n > wanted; --n) {
    if (row % n == 0 && n % kLeastKeyTile == 0) return n;
  }
  return wanted;
}

}  // namespace

std::optional<OnlineRowChoice> ChooseOnline(ir::UOpContext& ctx, ir::UOp sink,
                                            const Target& target) {
  const auto order = ir::Toposort(ctx, sink);
  if (std::ranges::none_of(order, [](ir::UOp u) { return u.Is(ir::Op::STAGE); }))
    return std::nullopt;
  const int64_t bytes = StagedBytes(ctx, sink).thread_bytes;
  const Machine& machine = MachineOf(target);
  const int64_t wanted = machine.row_piece;
  if (bytes <= machine.row_bytes(target)) return std::nullopt;
  const auto axes = Axes(ctx, sink);
  for (size_t a = 0; a < axes.size(); ++a) {
    if (axes[a].axis_type() != ir::AxisType::REDUCE) continue;
    const auto row = static_cast<int64_t>(ctx.BoundsOf(axes[a].src(0)).max);
    if (row <= wanted) continue;
    const int64_t n = KeyTileOf(row, wanted);
    const auto made = MakeOnline(ctx, sink, axes[a], n);
    if (made.ok()) return OnlineRowChoice{{OptKind::kOnline, static_cast<int>(a), n}, *made};
  }
  return std::nullopt;
}

}  // namespace uopd::codegen
