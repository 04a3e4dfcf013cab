// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/memory_opts.h"

#include <algorithm>
#include <climits>
#include <map>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::UOp;

constexpr double kLeastRow = 1024;  // bytes of a row that is prefetched
constexpr int64_t kFewRows = 16;    // with fewer rows, prefetching is not worth it

void AddStreams(ir::UOpContext& ctx, UOp sink, const Target& target,
                std::span<const MemoryAxis> axes, std::vector<Opt>& out) {
  if (target.caches.empty()) return;
  const std::vector<UOp> stores = Stores(ctx, sink);
  std::vector<bool> in_vectors(stores.size());
  double bytes = 0;
  for (size_t n = 0; n < stores.size(); ++n) {
    auto mine = static_cast<double>(ir::ByteSize(stores[n].src(1).dtype()));
    for (const MemoryAxis& a : axes) {
      const auto stride = StrideAlong(ctx, stores[n].src(0).src(1), a.range);
      if (stride != 0) mine *= static_cast<double>(a.size);
      if (stride == 1 && a.lanes > 1) in_vectors[n] = true;
    }
    bytes += mine;
  }
  if (bytes <= static_cast<double>(target.caches.back().bytes)) return;
  for (size_t n = 0; n < stores.size(); ++n) {
    if (in_vectors[n]) out.push_back({OptKind::kStream, static_cast<int>(n), 0});
  }
}

// The output axis whose iterations read one row each; nullopt if the load does not go over rows
// that are worth prefetching.
std::optional<size_t> RowAxis(ir::UOpContext& ctx, UOp load, const Target& target,
                              std::span<const MemoryAxis> axes) {
  const UOp index = load.src(0);
  if (index.n_src() > 2) return std::nullopt;
  auto row = static_cast<double>(ir::ByteSize(load.dtype()));
  std::optional<size_t> rows;
  bool in_vectors = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    const MemoryAxis& a = axes[i];
    const auto stride = StrideAlong(ctx, index.src(1), a.range);
    if (!stride || !a.fixed) return std::nullopt;
    if (stride == 0) continue;
    if (a.lanes > 1 && stride == 1) in_vectors = true;
    if (a.is_reduce || a.lanes > 1) {
      row *= static_cast<double>(a.size);
    } else {
      rows = i;
    }
  }
  if (!rows || !in_vectors || axes[*rows].left < kFewRows || row < kLeastRow) return std::nullopt;
  const auto cache = static_cast<double>(target.OwnCacheBytes());
  if (4 * row > cache || row * static_cast<double>(axes[*rows].size) < cache) return std::nullopt;
  return rows;
}

// By RANGE id: when the loop over it runs, as the number of reductions and stages that must be
// complete before. Loops over outputs, which run last, are not in it.
absl::flat_hash_map<uint32_t, int> PassesOf(const ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, int> level, out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    int mine = 0;
    for (UOp s : u.srcs()) mine = std::max(mine, level[s.id()]);
    if (u.Is(ir::OpSet{ir::Op::REDUCE, ir::Op::STAGE})) {
      for (UOp r : u.closed()) {
        const auto [it, fresh] = out.try_emplace(r.id(), mine);
        if (!fresh) it->second = std::min(it->second, mine);
      }
      ++mine;
    }
    level[u.id()] = mine;
  }
  return out;
}

void AddPrefetches(ir::UOpContext& ctx, UOp sink, const Target& target,
                   std::span<const MemoryAxis> axes, std::vector<Opt>& out) {
  const std::vector<UOp> reads = Reads(ctx, sink);
  const auto pass_of = PassesOf(ctx, sink);
  // By buffer and row axis: the passes over it, with the number of a load.
  std::map<std::pair<int64_t, size_t>, std::map<int, size_t>> passes;
  for (size_t n = 0; n < reads.size(); ++n) {
    const auto rows = RowAxis(ctx, reads[n], target, axes);
    if (!rows) continue;
    int pass = 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i == *rows || !ir::Reaches(ctx, reads[n], axes[i].range)) continue;
      const auto found = pass_of.find(axes[i].range.id());
      pass = std::max(pass, found == pass_of.end() ? INT_MAX : found->second);
    }
    passes[{reads[n].src(0).src(0).slot(), *rows}].try_emplace(pass, n);
  }
  // All passes prefetch. One pass alone is over before memory has sent a whole row: while a pass
  // that computes much or stores prefetches, the others leave memory idle.
  for (const auto& [where, loads] : passes) {
    if (loads.size() < 2) continue;
    for (const auto& [pass, load] : loads) {
      out.push_back(
          {OptKind::kPrefetch, static_cast<int>(load), static_cast<int64_t>(where.second)});
    }
  }
}

}  // namespace

std::vector<Opt> MemoryOpts(ir::UOpContext& ctx, UOp sink, const Target& target,
                            std::span<const MemoryAxis> axes) {
  std::vector<Opt> out;
  AddStreams(ctx, sink, target, axes, out);
  AddPrefetches(ctx, sink, target, axes, out);
  return out;
}

}  // namespace uopd::codegen
