// SPDX-License-Identifier: MIT
// The step ChoosePanels of the heuristic (heuristic.cc): opts that cut reductions into panels,
// BLOCK, PACK and PREFETCH. They bring PACKs of their own, so a kernel with panels gets no further
// ones.
//
// A product of few rows with a large matrix reads the matrix once, from memory. A tile reads a
// narrow strip of it, a few lines of each row, and every row is on another page: processors do not
// foresee that. A panel reads long parts of few rows, copies them, and multiplies the copy with all
// rows. The partial sums of the panel stay in a cache.
//
// The gradient of the weights of a convolution sums over images, rows and columns, and its vectors
// lie along the columns. What one tile reads is longer than the first-level cache, and the next
// tile reads most of it again. A panel is so short that it stays in that cache for all tiles that
// read it.
#include <algorithm>
#include <cstdlib>
#include <optional>

#include "core/codegen/cpu/heuristic/heuristic_steps.h"
#include "core/codegen/cpu/heuristic/memory_opts.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/vectors/vectorise.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;

constexpr double kFewestRows = 4;        // with fewer rows a panel costs more than it saves
constexpr int64_t kLeastStretch = 1024;  // bytes of a row that are read together
constexpr int64_t kMostStretch = 4096;
constexpr int64_t kMostSteps = 256;  // of the reduced axis in a panel
// One tile sums up at least so many vectors of a panel. With fewer, joining the lanes of the sums
// costs as much as the sums.
constexpr double kLeastVectors = 12;
constexpr int64_t kSumBytes = 4;  // of a partial sum

// What the kernel multiplies: sums over one axis of products of a large matrix with few rows.
struct FewRows {
  size_t load = 0;                // of the matrix, a position in Loads()
  size_t lanes = 0, reduced = 0;  // axes
  std::vector<size_t> rows;       // the axes that the matrix does not depend on
  double n_rows = 1;
  int64_t bytes = 4;  // of an element of the matrix
};

std::optional<size_t> OnlyReducedAxis(std::span<const MemoryAxis> axes) {
  std::optional<size_t> out;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].is_reduce) continue;
    if (out || !axes[i].fixed) return std::nullopt;
    out = i;
  }
  return out;
}

// Whether the kernel computes one sum for each element, and nothing that could not be cut.
bool IsOneSum(const ir::UOpContext& ctx, UOp sink) {
  int sums = 0;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(ir::OpSet{Op::STAGE, Op::SCAN})) return false;
    if (u.Is(Op::REDUCE)) ++sums;
  }
  return sums == 1;
}

std::optional<FewRows> MaybeFewRows(ir::UOpContext& ctx, UOp sink, const Target& target,
                                    std::span<const MemoryAxis> axes) {
  const auto reduced = OnlyReducedAxis(axes);
  if (!reduced || !IsOneSum(ctx, sink)) return std::nullopt;
  const std::vector<UOp> loads = Loads(ctx, sink);
  // Rows of a matrix in the last cache need not be foreseen: it answers quickly.
  double least = 2 * static_cast<double>(target.OwnCacheBytes());
  if (!target.caches.empty())
    least = std::max(least, static_cast<double>(target.caches.back().bytes));
  std::optional<FewRows> out;
  for (size_t n = 0; n < loads.size(); ++n) {
    FewRows mine;
    mine.load = n;
    mine.reduced = *reduced;
    mine.bytes = ir::ByteSize(loads[n].dtype());
    double elements = 1;
    bool vectors = false, far = false;
    for (size_t i = 0; i < axes.size(); ++i) {
      const auto stride = StrideAlong(ctx, loads[n].src(0).src(1), axes[i].range);
      if (i == *reduced) far = stride && std::abs(*stride) * mine.bytes >= kRowBytes;
      if (stride != 0) elements *= static_cast<double>(axes[i].size);
      if (axes[i].is_reduce) continue;
      if (!axes[i].fixed) return std::nullopt;
      if (stride == 0) {
        mine.rows.push_back(i);
        mine.n_rows *= static_cast<double>(axes[i].size);
      } else if (axes[i].lanes > 1) {
        vectors = stride == 1;
        mine.lanes = i;
      }
    }
    const double bytes = elements * static_cast<double>(mine.bytes);
    if (!vectors || !far || bytes < least) continue;
    if (out) return std::nullopt;  // two large matrices
    out = mine;
  }
  if (!out || loads[out->load].src(0).n_src() > 2) return std::nullopt;
  return out;
}

// The number of tiles in a panel along the lanes: the one that computes the fewest elements twice.
// 0 if the partial sums of none would stay in the cache.
int64_t TilesOf(const FewRows& product, const MemoryAxis& lanes, double cache) {
  int64_t best = 0;
  double least = 0;
  for (int64_t n = lanes.left; n > 0; --n) {
    const int64_t stretch = n * lanes.tile * product.bytes;
    if (stretch < kLeastStretch || stretch > kMostStretch) continue;
    if (product.n_rows * static_cast<double>(n * lanes.tile * kSumBytes) > cache / 4) continue;
    const int64_t panels = (lanes.left + n - 1) / n;
    const auto computed = static_cast<double>(panels * n);
    if (best != 0 && computed >= least) continue;
    best = n;
    least = computed;
  }
  return best;
}

// The bytes that one tile reads in all steps of its sums.
double BytesOfTile(ir::UOpContext& ctx, UOp sink, std::span<const MemoryAxis> axes) {
  double all = 0;
  for (UOp load : Loads(ctx, sink)) {
    auto mine = static_cast<double>(ir::ByteSize(load.dtype()));
    for (const MemoryAxis& a : axes) {
      if (StrideAlong(ctx, load.src(0).src(1), a.range) == 0) continue;
      mine *= static_cast<double>(a.is_reduce ? a.size : a.tile);
    }
    all += mine;
  }
  return all;
}

// The opts that cut a sum over at least two axes, with vectors along one of them, into panels. They
// are applied as those of PanelOpts.
std::vector<Opt> LongSumOpts(ir::UOpContext& ctx, UOp sink, const Target& target,
                             std::span<const MemoryAxis> axes) {
  if (!IsOneSum(ctx, sink) || target.caches.empty()) return {};
  std::optional<size_t> lanes;
  int64_t left = 1;
  double vectors = 1;  // that one tile of a panel sums up
  double array = kSumBytes;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i].fixed) return {};
    if (axes[i].is_reduce) {
      vectors *= static_cast<double>(axes[i].size) / static_cast<double>(axes[i].lanes);
      if (axes[i].lanes > 1) lanes = i;
    } else {
      array *= static_cast<double>(axes[i].tile);
      if (axes[i].lanes > 1) return {};
    }
  }
  const auto first = static_cast<double>(target.caches[0].bytes);
  double bytes = BytesOfTile(ctx, sink, axes);
  if (!lanes || bytes <= first) return {};
  // Panels of the reduced axes, the outer ones first, until what a tile reads stays in the cache.
  std::vector<Opt> out;
  for (size_t i = 0; i < axes.size() && bytes > first / 2; ++i) {
    if (!axes[i].is_reduce || i == *lanes || axes[i].left == 1) continue;
    int64_t n = axes[i].left / 2;
    while (n > 1 && (axes[i].left % n != 0 || bytes * static_cast<double>(n) >
                                                  first / 2 * static_cast<double>(axes[i].left)))
      --n;
    out.push_back({OptKind::kBlock, static_cast<int>(i), n});
    bytes *= static_cast<double>(n) / static_cast<double>(axes[i].left);
    vectors *= static_cast<double>(n) / static_cast<double>(axes[i].left);
  }
  if (bytes > first / 2 || vectors < kLeastVectors) return {};
  // The tiles of a panel: as many as their partial sums leave room for, the inner axes first.
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].is_reduce || axes[i].left == 1) continue;
    array *= static_cast<double>(axes[i].left);
    if (array > static_cast<double>(target.OwnCacheBytes()) / 4) break;
    out.push_back({OptKind::kBlock, static_cast<int>(i), 0});
    left *= axes[i].left;
  }
  return left < static_cast<int64_t>(kFewestRows) ? std::vector<Opt>() : out;
}

// The opts that cut a product of few rows with a large matrix into panels, in the order in which
// they apply: all of them or none. Empty if the kernel is no such product. `axes` are those of
// Axes(ctx, sink). REQUIRES: the kernel has no TC.
std::vector<Opt> PanelOpts(ir::UOpContext& ctx, UOp sink, const Target& target,
                           std::span<const MemoryAxis> axes) {
  const auto product = MaybeFewRows(ctx, sink, target, axes);
  if (!product) return {};
  const std::vector<UOp> loads = Loads(ctx, sink), reads = Reads(ctx, sink);
  const auto read = std::find(reads.begin(), reads.end(), loads[product->load]);
  const Opt prefetch = {OptKind::kPrefetch, static_cast<int>(read - reads.begin()),
                        static_cast<int64_t>(product->reduced)};
  if (product->n_rows < kFewestRows) return {prefetch};
  const auto cache = static_cast<double>(target.OwnCacheBytes());
  const MemoryAxis& lanes = axes[product->lanes];
  const MemoryAxis& reduced = axes[product->reduced];
  const int64_t tiles = TilesOf(*product, lanes, cache);
  if (tiles == 0) return {};
  int64_t steps = 1;  // of the loop that is left
  while (2 * steps * reduced.tile <= kMostSteps &&
         static_cast<double>(2 * steps * reduced.tile * tiles * lanes.tile * kSumBytes) <=
             cache * 3 / 8)
    steps *= 2;
  if (steps == 1 || reduced.left < 2 * steps) return {};
  std::vector<Opt> out = {{OptKind::kBlock, static_cast<int>(product->lanes), tiles}};
  for (size_t i : product->rows) {
    if (axes[i].left > 1) out.push_back({OptKind::kBlock, static_cast<int>(i), 0});
  }
  out.push_back({OptKind::kBlock, static_cast<int>(product->reduced), steps});
  out.push_back({OptKind::kPack, static_cast<int>(product->load), 0});
  out.push_back(prefetch);
  return out;
}

// All opts of panels apply, or none is added.
bool AddPanels(CpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  if (!CanPack(facts) || choice.plan.maybe_instruction() != nullptr) return false;
  const std::vector<MemoryAxis> axes = MemoryAxes(choice);
  std::vector<Opt> opts = PanelOpts(facts.ctx, facts.sink, facts.target, axes);
  if (opts.empty()) opts = LongSumOpts(facts.ctx, facts.sink, facts.target, axes);
  const std::vector<Opt> before = choice.plan.opts();
  for (const Opt& opt : opts) {
    if (choice.Try(opt)) continue;
    choice.Restore(before);
    return false;
  }
  return !opts.empty();
}

}  // namespace

void ChoosePanels(CpuChoice& choice) { choice.has_panels = AddPanels(choice); }

}  // namespace uopd::codegen
