// SPDX-License-Identifier: MIT
#include "core/codegen/attention/warp_rows/choose_warp_rows.h"

#include <algorithm>
#include <optional>

#include "core/base/text.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/graph.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

constexpr int64_t kStepKeys = 64, kLeastStepKeys = 16;  // of a step
constexpr int64_t kRowsWarps = 4;
constexpr double kLeastTiles = 0.25;          // of all rows, for each processor
constexpr int64_t kLeastTileRows = 8;         // fewer leave most of a tile empty
constexpr int64_t kMostRowRegisters = 180;    // of a thread, for fragments
constexpr int64_t kMostTwiceRegisters = 100;  // of a thread, for fragments of one of two tiles
constexpr int64_t kTwiceStepKeys = 32;
constexpr int64_t kRowsPipelineParts = 3;

// The maximum over a row that sums of products depend on: the position of its axis; nothing if
// there is none.
std::optional<size_t> MaximumAxis(const ir::UOpContext& ctx, UOp sink) {
  const auto order = ir::Toposort(ctx, sink);
  const auto axes = Axes(ctx, sink);
  const bool staged = std::ranges::any_of(order, [](UOp u) { return u.Is(Op::STAGE); });
  if (!staged) return std::nullopt;
  for (UOp u : order) {
    if (!u.Is(Op::REDUCE) || u.reduce_op() != Op::MAX || u.closed().size() != 1) continue;
    return static_cast<size_t>(std::ranges::find(axes, u.closed()[0]) - axes.begin());
  }
  return std::nullopt;
}

bool AddOpt(OptPlan& plan, OptKind kind, size_t axis, int64_t amount) {
  return plan.Add({kind, static_cast<int>(axis), amount}).ok();
}

// ONLINE and TC with steps of n keys. Tries the reduced axes of the kernel that ONLINE makes.
bool AddWarpRows(OptPlan& plan, size_t maximum, int64_t n) {
  plan.Clear();
  if (!AddOpt(plan, OptKind::kOnline, maximum, n)) return false;
  for (size_t axis = 0; axis < plan.axes(); ++axis) {
    if (plan.IsStep(axis, n) && AddOpt(plan, OptKind::kTensorCore, axis, 0)) return true;
  }
  return false;
}

}  // namespace

std::vector<Opt> ChooseWarpRows(ir::UOpContext& ctx, UOp sink, const Target& target) {
  const bool has_instruction =
      std::ranges::any_of(target.matrix_instructions, &MatrixInstruction::of_warp);
  const auto maximum = has_instruction ? MaximumAxis(ctx, sink) : std::nullopt;
  if (!maximum) return {};
  const UOp keys = Axes(ctx, sink)[*maximum].src(0);
  OptPlan plan(ctx, sink, target);
  for (int64_t n = kStepKeys; n >= kLeastStepKeys; n /= 2) {
    if (ctx.BoundsOf(keys).max <= n || !AddWarpRows(plan, *maximum, n)) continue;
    const WarpRowsSize size = plan.warp_rows_size();
    // Few rows with many keys get more threads for each row otherwise.
    if (size.rows < kLeastTileRows || size.tiles < kLeastTiles * target.units) return {};
    if (size.registers > kMostRowRegisters) continue;
    // Two tiles of a warp share what it loads of keys and values, if there are enough of them.
    const bool twice = size.registers <= kMostTwiceRegisters &&
                       size.tiles >= 2.0 * kRowsWarps * target.units &&
                       size.rows >= 2 * kRowsWarps * size.tile_rows;
    // With shorter steps both tiles fit in the registers (H200, depth 64: 272 us with 32 keys, 292
    // us with 64).
    if (twice && n > kTwiceStepKeys) continue;
    if (twice) AddOpt(plan, OptKind::kUpcast, size.rows_axis, 2);
    for (int64_t warps = kRowsWarps; warps > 1; warps /= 2) {
      if ((warps / 2) * size.tile_rows >= size.rows) continue;
      if (AddOpt(plan, OptKind::kLocal, size.rows_axis, warps)) break;
    }
    for (int64_t parts = kRowsPipelineParts; target.async_copies && parts > 1; --parts) {
      // Three blocks of a processor shall have room for their arrays; if two parts are too large
      // for that, one.
      const int64_t room = target.shared_bytes / (parts > 2 ? 3 : 1);
      if (plan.SharedBytes() * parts > room) continue;
      if (AddOpt(plan, OptKind::kPipeline, size.key_tiles_axis, parts)) break;
    }
    if (rewrite::TracesNotes()) {
      rewrite::TraceNote(Cat("computes attention by warps, ", size.tile_rows, " rows a tile and ",
                             n, " keys a step, whose fragments fit in ", size.registers,
                             " registers of a thread: ", Text(plan.opts())));
    }
    return plan.opts();
  }
  return {};
}

}  // namespace uopd::codegen
