// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/operand_prefetch.h"

#include <algorithm>
#include <optional>

#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

constexpr double kMostTiles = 16;    // that read the same elements: more do not wait for the first
constexpr double kLeastPart = 0.25;  // of a thread's own cache: a smaller operand is there soon

// The reduced axis along which the load reads a piece of each row, if its rows are worth fetching.
std::optional<size_t> RowsOf(ir::UOpContext& ctx, UOp load, const Target& target,
                             std::span<const MemoryAxis> axes) {
  const UOp index = load.src(0);
  if (index.n_src() > 2) return std::nullopt;
  const int64_t element = ir::ByteSize(load.dtype());
  auto bytes = static_cast<double>(element);
  double tiles = 1;
  int64_t piece = 0, step = 0;
  std::optional<size_t> rows;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MemoryAxis& a = axes[i];
    const auto stride = StrideAlong(ctx, index.src(1), a.range);
    if (!stride || !a.fixed) return std::nullopt;
    if (stride == 0) {
      if (!a.is_reduce) tiles *= static_cast<double>(a.left);
      continue;
    }
    bytes *= static_cast<double>(a.size);
    if (!a.is_reduce && a.lanes > 1 && stride == 1) piece = a.tile * element;
    if (!a.is_reduce || a.left < 2) continue;
    rows = i;
    step = std::abs(*stride) * element;
  }
  const bool is_large = bytes > kLeastPart * static_cast<double>(target.OwnCacheBytes());
  return piece > 0 && step > piece && is_large && tiles <= kMostTiles ? rows : std::nullopt;
}

}  // namespace

std::vector<Opt> OperandPrefetches(ir::UOpContext& ctx, UOp sink, const Target& target,
                                   std::span<const MemoryAxis> axes, std::span<const Opt> opts) {
  const std::vector<UOp> reads = Reads(ctx, sink), loads = Loads(ctx, sink);
  std::vector<Opt> out;
  for (size_t n = 0; n < reads.size(); ++n) {
    // What is packed is copied long before it is used.
    const bool packed = std::ranges::any_of(opts, [&](const Opt& o) {
      return o.kind == OptKind::kPack && loads[static_cast<size_t>(o.axis)] == reads[n];
    });
    const auto rows = packed ? std::nullopt : RowsOf(ctx, reads[n], target, axes);
    if (rows) out.push_back({OptKind::kPrefetch, static_cast<int>(n), static_cast<int64_t>(*rows)});
  }
  return out;
}

}  // namespace uopd::codegen
