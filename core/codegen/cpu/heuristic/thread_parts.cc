// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/thread_parts.h"

#include <algorithm>

#include "core/codegen/estimate.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"

namespace uopd::codegen {
namespace {

constexpr double kMostTwice = 1.03;  // tiles of all parts, of those that whole threads compute

// Bytes that every iteration of the axis reads.
double SharedBytes(ir::UOpContext& ctx, ir::UOp sink, std::span<const MemoryAxis> axes,
                   size_t axis) {
  double all = 0;
  for (ir::UOp load : Reads(ctx, sink)) {
    const auto along = [&](size_t i) {
      return StrideAlong(ctx, load.src(0).src(1), axes[i].range) != 0;
    };
    if (along(axis)) continue;
    auto mine = static_cast<double>(ir::ByteSize(load.dtype()));
    for (size_t i = 0; i < axes.size(); ++i) {
      if (along(i)) mine *= static_cast<double>(axes[i].size);
    }
    all += mine;
  }
  return all;
}

// Tiles that n parts of the axis compute. All parts have as many tiles, so the last ones overlap.
double Computed(const MemoryAxis& axis, int64_t n) {
  const int64_t tiles = (axis.size + axis.tile - 1) / axis.tile;
  const int64_t of_a_part = (tiles + n - 1) / n;
  return static_cast<double>(of_a_part * n);
}

}  // namespace

std::vector<int64_t> ThreadParts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                 std::span<const MemoryAxis> axes, std::span<const Opt> opts) {
  const auto thread = std::ranges::find(opts, OptKind::kThread, &Opt::kind);
  const bool packs = std::ranges::find(opts, OptKind::kPack, &Opt::kind) != opts.end();
  if (thread == opts.end() || packs || target.warp_lanes > 1) return {};
  if (thread->amount != target.threads || target.caches.size() < 2) return {};
  const auto axis = static_cast<size_t>(thread->axis);
  if (SharedBytes(ctx, sink, axes, axis) > static_cast<double>(target.caches[1].bytes) / 2)
    return {};
  const Estimate e = EstimateKernel(ctx, sink);
  // The next part of a thread needs no wake-up, but it is called for.
  const double least_work = target.speeds.thread_work() / 2;
  const double most = kMostTwice * Computed(axes[axis], thread->amount);
  std::vector<int64_t> out;
  for (const int64_t parts : {8, 4, 2}) {
    const int64_t n = parts * target.threads;
    const bool fits = axes[axis].left % parts == 0 || Computed(axes[axis], n) <= most;
    if (fits && (e.flops + e.bytes / 4) / static_cast<double>(n) >= least_work) out.push_back(n);
  }
  return out;
}

}  // namespace uopd::codegen
