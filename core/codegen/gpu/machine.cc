// SPDX-License-Identifier: MIT
#include "core/codegen/gpu/machine.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/codegen/attention/online/choose_online.h"
#include "core/codegen/attention/warp_rows/choose_warp_rows.h"
#include "core/codegen/attention/warp_rows/warp_rows.h"
#include "core/codegen/gpu/grid.h"
#include "core/codegen/gpu/heuristic/block_heuristic.h"
#include "core/codegen/gpu/passes/threads/map_threads.h"
#include "core/codegen/gpu/product/warp_product.h"
#include "core/codegen/opts/make/pack_value.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/shared_array.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

constexpr int64_t kPlainThreads = 256;  // of a block of a kernel without opts, at most
constexpr int64_t kRowsOfAUnit = 4;     // that should have arrays in shared memory at a time

// A thread is not alone in its block: the last output axis that can has up to 256. And the
// scheduler makes rows of any length where ONLINE needs no array for them.
std::vector<Opt> ChoosePlainThreads(ir::UOpContext& ctx, UOp sink, const Target& target) {
  std::vector<Opt> out;
  if (const auto online = ChooseOnline(ctx, sink, target)) out = {online->opt};
  OptPlan plan(ctx, sink, target);
  for (const Opt& opt : out) {
    if (!plan.Add(opt).ok()) return out;
  }
  for (size_t axis = plan.axes(); axis-- > 0;) {
    for (int64_t n = std::min<int64_t>(kPlainThreads, target.max_block_threads); n > 1; n /= 2) {
      if (plan.Add({OptKind::kLocal, static_cast<int>(axis), n}).ok()) return plan.opts();
    }
  }
  return out;
}

std::string BlockTooLarge(ir::UOpContext& ctx, UOp made, const Target& target, int64_t parts) {
  const auto mapped = MapThreads(ctx, made, target);
  if (!mapped.ok()) return StatusText(mapped.status());
  const int64_t shared = StagedBytes(ctx, mapped->sink).shared_bytes * parts;
  if (shared <= target.shared_bytes) return "";
  return Cat("a block would share ", shared, " bytes; one of the target has ", target.shared_bytes);
}

Machine::LoopPlace PlaceOfBlocks(const PlanView& plan, size_t axis) {
  return {!plan.state.axes[axis].HasPanel(), plan.state.axes[axis].rank};
}

double LaunchOfBlocksNs(double thread_ns, int64_t blocks, int64_t threads, const Target& target) {
  const double grid = static_cast<double>(std::max<int64_t>(blocks, 1));
  const int64_t warps = (threads + target.warp_lanes - 1) / std::max(target.warp_lanes, 1);
  return thread_ns * grid * static_cast<double>(warps) / std::max(target.units, 1);
}

int64_t SharedByBlock(ir::UOpContext& ctx, UOp linear) {
  ir::SharedLayout layout;
  for (UOp u : linear.srcs()) {
    if (ir::IsShared(u)) layout.Place(ctx, u);
  }
  return layout.bytes();
}

}  // namespace

const Machine kGpuMachine = {
    .kind = Machine::Kind::kGpu,
    .maybe_choose_rows = ChooseWarpRows,
    .choose = GpuOpts,
    .maybe_choose_threads = ChoosePlainThreads,
    .row_bytes = [](const Target& target) { return target.shared_bytes / kRowsOfAUnit; },
    .row_piece = 64,
    .tries_tiles = false,
    .parallel = [](const Target& target) { return std::max<int64_t>(target.units, 1); },
    .add_product = AddWarpProduct,
    .maybe_add_rows = AddWarpRows,
    .keeps_partials = false,
    .limits_blocks = true,
    .too_large = BlockTooLarge,
    .pack = PackShared,
    .loop_place = PlaceOfBlocks,
    .is_grid = IsGrid,
    .overlaps_tiles = false,  // an element would be stored twice
    .shares_gates = true,
    // Other warps compute while the additions of one wait. A maximum is the same in any order: one
    // order means one value where several sums use it, as those of ONLINE do.
    .sums = {.chained_in_loop = 2,
             .chained_without = 2,
             .joins_maxima = true,
             .cuts_products = false},
    // A thread of a full processor takes ten times as long as the estimate says, and thousands of
    // warps poll over one bus.
    .poll_ns = 1e6,
    .long_launch_ns = 100e6,
    .launch_ns = LaunchOfBlocksNs,
    .shared_bytes = SharedByBlock,
};

}  // namespace uopd::codegen
