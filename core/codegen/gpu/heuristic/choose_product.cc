// SPDX-License-Identifier: MIT
// The tile of a product of matrices (block_heuristic.h).
//
// A block computes a tile of the result. In each step of the sum it copies a piece of both operands
// to shared memory, and each thread multiplies a square in registers. The tile with the least
// estimated time wins:
//
//   time = max(multiply-adds, shared loads, loads from memory)
//          / (share of the last wave that is used)
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/text.h"
#include "core/codegen/gpu/heuristic/product.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kCopiedSteps = 16;   // of the sum that are copied at a time
constexpr int64_t kPipelineParts = 4;  // of the shared arrays, at most
// A product of so many multiply-adds is unrolled kCopiedSteps times where copies are asynchronous.
constexpr double kManyProducts = 5e8;
constexpr double kLeastSize = 32;  // of both axes of the result, and of the sum

struct BlockTile {
  int64_t threads_m, threads_n, rows, columns;  // rows and columns of one thread
  int64_t m() const { return threads_m * rows; }
  int64_t n() const { return threads_n * columns; }
};

// Largest first.
constexpr BlockTile kBlockTiles[] = {{16, 16, 8, 8}, {16, 16, 4, 8}, {16, 16, 8, 4}, {16, 16, 4, 4},
                                     {8, 16, 4, 4},  {16, 8, 4, 4},  {8, 8, 4, 4},   {8, 8, 2, 4}};

double BlockCycles(const BlockTile& t, const ProductSize& p, const Target& target) {
  const double tiles =
      std::ceil(p.m / static_cast<double>(t.m())) * std::ceil(p.n / static_cast<double>(t.n()));
  const double waves = std::ceil(tiles / target.units);
  const double products = static_cast<double>(t.m() * t.n());
  const double compute = products / target.speeds.products;
  const double registers = 4.0 * static_cast<double>(t.rows + t.columns) *
                           static_cast<double>(t.threads_m * t.threads_n) /
                           target.speeds.shared_bytes;
  const double memory = p.bytes * static_cast<double>(t.m() + t.n()) / target.speeds.memory_bytes;
  return waves * p.steps * std::max({compute, registers, memory});
}

std::optional<MatrixProduct> MaybeProduct(const KernelFacts& facts) {
  const auto factors = MaybeFactors(facts);
  if (!factors) return std::nullopt;
  const auto& loads = *factors;
  const AxisSet over = facts.results[0].over;
  // Each factor misses an output axis of the other.
  const auto missing = [&](const Access& x, const Access& other) {
    size_t best = facts.axes.size();
    for (size_t a = 0; a < facts.axes.size(); ++a) {
      if (!IsOwnAxis(facts, other, x, a)) continue;
      if (best == facts.axes.size() || facts.sizes[a] > facts.sizes[best]) best = a;
    }
    return best;
  };
  MatrixProduct out{
      {loads[0], loads[1]}, missing(*loads[1], *loads[0]), missing(*loads[0], *loads[1])};
  if (out.m == facts.axes.size() || out.n == facts.axes.size()) return std::nullopt;
  if (!IsContiguous(facts, out.n, false) && IsContiguous(facts, out.m, false))
    std::swap(out.m, out.n);
  // The longest axis of the sum is cut into pieces; the others are short.
  out.k = facts.axes.size();
  out.steps = 1;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    if ((over & AxisBit(a)) == 0) continue;
    if (!facts.fixed[a]) return std::nullopt;
    if (out.k == facts.axes.size() || facts.sizes[a] > facts.sizes[out.k]) out.k = a;
    out.steps *= static_cast<double>(facts.sizes[a]);
  }
  if (std::min({facts.sizes[out.m], facts.sizes[out.n], facts.sizes[out.k]}) <
      static_cast<int64_t>(kLeastSize))
    return std::nullopt;
  out.batch = GridResults(facts) / static_cast<double>(facts.sizes[out.m]) /
              static_cast<double>(facts.sizes[out.n]);
  out.bytes = static_cast<double>(std::max(loads[0]->bytes, loads[1]->bytes));
  return out;
}

bool AddThreadTile(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  std::vector<std::pair<double, const BlockTile*>> tiles;  // of equal cost the larger one first
  for (const BlockTile& t : kBlockTiles) {
    const double cycles = BlockCycles(t, SizeAlong(facts, p, p.m, p.n), facts.target);
    tiles.emplace_back(cycles, &t);
  }
  std::sort(tiles.begin(), tiles.end());
  const auto others = static_cast<int64_t>(p.steps) / facts.sizes[p.k];
  for (const auto& [cycles, tile] : tiles) {
    const BlockTile& t = *tile;
    choice.Restart();
    const int64_t lanes = std::min<int64_t>(t.columns, 4);
    const bool vectors = IsContiguous(facts, p.n, false) && facts.sizes[p.n] % lanes == 0 &&
                         choice.Add(OptKind::kVector, p.n, lanes);
    bool fits = choice.Add(OptKind::kLocal, p.n, t.threads_n);
    const int64_t columns = vectors ? t.columns / lanes : t.columns;
    if (fits && columns > 1) fits = choice.Add(OptKind::kUpcast, p.n, columns);
    fits = fits && choice.Add(OptKind::kUpcast, p.m, t.rows) &&
           choice.Add(OptKind::kLocal, p.m, t.threads_m);
    const int64_t steps = std::max<int64_t>(1, kCopiedSteps / others);
    // Long kernels are worth the time that compilers take for longer code, which is a tenth faster.
    const double products = static_cast<double>(facts.sizes[p.m]) *
                            static_cast<double>(facts.sizes[p.n]) * p.batch * p.steps;
    const int64_t unrolled = std::min<int64_t>(
        steps, facts.target.async_copies && products >= kManyProducts ? kCopiedSteps : 4);
    fits = fits && (unrolled == 1 || choice.Add(OptKind::kUnroll, p.k, unrolled)) &&
           choice.Add(OptKind::kBlock, p.k, std::max<int64_t>(1, steps / unrolled)) &&
           AddPacks(choice, p);
    if (!fits) continue;
    AddPipeline(choice, p);
    ChooseRaster(choice, {p.m, p.n, static_cast<double>(t.rows * t.threads_m),
                          static_cast<double>(t.columns * t.threads_n)});
    if (rewrite::TracesNotes())
      rewrite::TraceNote(Cat("tiles of ", t.m(), " x ", t.n(), ", ", t.rows, " x ", t.columns,
                             " of each thread, are estimated at ", std::llround(cycles),
                             " cycles, the best of those that fit: ", Text(choice.plan.opts())));
    return true;
  }
  choice.Restart();
  return false;
}

}  // namespace

std::optional<std::array<const Access*, 2>> MaybeFactors(const KernelFacts& facts) {
  if (facts.results.size() != 1 || facts.has_stages) return std::nullopt;
  std::vector<const Access*> loads;
  for (const Access& x : facts.accesses) {
    if (!x.is_store && (x.path & facts.results[0].over) != 0) loads.push_back(&x);
  }
  if (loads.size() != 2) return std::nullopt;
  return std::array{loads[0], loads[1]};
}

bool AddPacks(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  const auto packs = Loads(facts.ctx, facts.sink);
  for (size_t i = 0; i < packs.size(); ++i) {
    if (packs[i] != p.loads[0]->node && packs[i] != p.loads[1]->node) continue;
    if (!choice.Add(OptKind::kPack, i, 0)) return false;
  }
  return true;
}

void AddPipeline(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  if (!facts.target.async_copies) {
    choice.Add(OptKind::kPipeline, p.k, 2);
    return;
  }
  const int64_t bytes = choice.plan.SharedBytes();
  for (int64_t parts = kPipelineParts; parts > 1; --parts) {
    if (bytes * parts <= facts.target.shared_bytes / 2 &&
        choice.Add(OptKind::kPipeline, p.k, parts))
      return;
  }
}

bool ChooseProduct(GpuChoice& choice) {
  const KernelFacts& facts = choice.facts;
  const auto product = MaybeProduct(facts);
  return product && (AddGroupTile(choice, *product) || AddWarpTile(choice, *product) ||
                     AddThreadTile(choice, *product));
}

}  // namespace uopd::codegen
