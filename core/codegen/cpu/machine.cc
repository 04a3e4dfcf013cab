// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/machine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/text.h"
#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/make/vector_product.h"
#include "core/codegen/opts/make/pack_value.h"
#include "core/codegen/passes/stages.h"
#include "core/ir/shape.h"
#include "core/ir/shared_array.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

std::string StagesTooLarge(ir::UOpContext& ctx, UOp made, const Target& target, int64_t /*parts*/) {
  const int64_t bytes = StagedBytes(ctx, made).thread_bytes;
  if (bytes <= target.private_bytes) return "";
  return Cat("the kernel would stage ", bytes, " bytes; a thread of the target has ",
             target.private_bytes);
}

Machine::LoopPlace PlaceOfLoop(const PlanView& plan, size_t axis) {
  const bool packed = std::ranges::any_of(
      plan.state.packed, [&](UOp load) { return plan.kernel().Along(load, axis); });
  return {!packed, axis};
}

double LaunchOfThreadsNs(double thread_ns, int64_t threads, int64_t /*of_block*/,
                         const Target& target) {
  const double grid = static_cast<double>(std::max<int64_t>(threads, 1));
  return thread_ns * std::ceil(grid / std::clamp<double>(grid, 1, std::max(target.threads, 1)));
}

int64_t SharedByThreads(ir::UOpContext& ctx, UOp linear) {
  int64_t elements = 0;
  for (UOp u : linear.srcs()) {
    if (ir::IsShared(u)) elements += (*ctx.ShapeOf(u))[0].const_int();
  }
  return elements * ir::kSharedElement;
}

}  // namespace

const Machine kCpuMachine = {
    .kind = Machine::Kind::kCpu,
    .maybe_choose_rows = nullptr,
    .choose = CpuOpts,
    .maybe_choose_threads = nullptr,
    .row_bytes = [](const Target& target) { return target.private_bytes; },
    .row_piece = 256,
    .tries_tiles = true,
    .parallel = [](const Target& target) { return std::max<int64_t>(target.threads, 1); },
    .add_product = AddVectorProduct,
    .maybe_add_rows = nullptr,
    .keeps_partials = true,
    .limits_blocks = false,
    .too_large = StagesTooLarge,
    .pack = PackValue,
    .loop_place = PlaceOfLoop,
    .is_grid = [](const PlanView&, size_t) { return false; },
    .overlaps_tiles = true,
    .shares_gates = false,
    // Without a loop the processor computes several results at the same time anyway, and a chain
    // has multiply-adds.
    .sums = {.chained_in_loop = 8,
             .chained_without = 0,
             .joins_maxima = false,
             .cuts_products = true},
    .poll_ns = 250e3,
    // Drivers read the stop word between two threads.
    .long_launch_ns = std::numeric_limits<double>::infinity(),
    .launch_ns = LaunchOfThreadsNs,
    .shared_bytes = SharedByThreads,
};

}  // namespace uopd::codegen
