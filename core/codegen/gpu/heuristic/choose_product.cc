// SPDX-License-Identifier: MIT
// The tile of a product of matrices (block_heuristic.h).
//
// A block computes a tile of the result. In each step of the sum it copies a piece of both operands to
// shared memory, and each thread multiplies a square in registers. The tile with the least estimated time wins:
//
//   time = max(multiply-adds, shared loads, loads from memory) / (share of the last wave that is used)
#include <algorithm>
#include <bit>
#include <cmath>

#include "core/codegen/gpu/heuristic/block_heuristic.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kCopiedSteps = 16;   // of the sum that are copied at a time
constexpr int64_t kPipelineParts = 4;  // of the shared arrays, at most
constexpr double kManyProducts = 5e8;
constexpr double kLeastSize = 32;     // of both axes of the result, and of the sum
constexpr double kSharedBytes = 128;  // that a processor loads from shared memory in a cycle
constexpr double kMemoryBytes = 16;   // that it gets from memory, about
constexpr double kUnitLanes = 128;    // multiply-adds of a processor in a cycle

struct BlockTile {
  int64_t threads_m, threads_n, rows, columns;  // rows and columns of one thread
  int64_t m() const { return threads_m * rows; }
  int64_t n() const { return threads_n * columns; }
};

// Largest first.
constexpr BlockTile kBlockTiles[] = {{16, 16, 8, 8}, {16, 16, 4, 8}, {16, 16, 8, 4}, {16, 16, 4, 4},
                                     {8, 16, 4, 4},  {16, 8, 4, 4},  {8, 8, 4, 4},   {8, 8, 2, 4}};

double BlockCycles(const BlockTile& t, double m, double n, double k, double bytes,
                   const Target& target) {
  const double tiles =
      std::ceil(m / static_cast<double>(t.m())) * std::ceil(n / static_cast<double>(t.n()));
  const double waves = std::ceil(tiles / target.units);
  const double products = static_cast<double>(t.m() * t.n());
  const double compute = products / kUnitLanes;
  const double registers = 4.0 * static_cast<double>(t.rows + t.columns) *
                           static_cast<double>(t.threads_m * t.threads_n) / kSharedBytes;
  const double memory = bytes * static_cast<double>(t.m() + t.n()) / kMemoryBytes;
  return waves * k * std::max({compute, registers, memory});
}

}  // namespace

std::optional<std::array<const Access*, 2>> BlockHeuristic::MaybeFactors() const {
  if (results_.size() != 1 || has_stages_) return std::nullopt;
  std::vector<const Access*> loads;
  for (const Access& x : accesses_) {
    if (!x.is_store && (x.path & results_[0].over) != 0) loads.push_back(&x);
  }
  if (loads.size() != 2) return std::nullopt;
  return std::array{loads[0], loads[1]};
}

std::optional<BlockHeuristic::Product> BlockHeuristic::MaybeProduct() const {
  const auto factors = MaybeFactors();
  if (!factors) return std::nullopt;
  const auto& loads = *factors;
  const AxisSet over = results_[0].over;
  // Each factor misses an output axis of the other.
  const auto missing = [&](const Access& x, const Access& other) {
    size_t best = axes_.size();
    for (size_t a = 0; a < axes_.size(); ++a) {
      if (!IsOwnAxis(other, x, a)) continue;
      if (best == axes_.size() || sizes_[a] > sizes_[best]) best = a;
    }
    return best;
  };
  Product out{{loads[0], loads[1]}, missing(*loads[1], *loads[0]), missing(*loads[0], *loads[1])};
  if (out.m == axes_.size() || out.n == axes_.size()) return std::nullopt;
  if (!IsContiguous(out.n, false) && IsContiguous(out.m, false)) std::swap(out.m, out.n);
  // The longest axis of the sum is cut into pieces; the others are short.
  out.k = axes_.size();
  out.steps = 1;
  for (size_t a = 0; a < axes_.size(); ++a) {
    if ((over & Bit(a)) == 0) continue;
    if (!fixed_[a]) return std::nullopt;
    if (out.k == axes_.size() || sizes_[a] > sizes_[out.k]) out.k = a;
    out.steps *= static_cast<double>(sizes_[a]);
  }
  if (std::min({sizes_[out.m], sizes_[out.n], sizes_[out.k]}) < static_cast<int64_t>(kLeastSize))
    return std::nullopt;
  out.batch = Results() / static_cast<double>(sizes_[out.m]) / static_cast<double>(sizes_[out.n]);
  out.bytes = static_cast<double>(std::max(loads[0]->bytes, loads[1]->bytes));
  return out;
}

// Both operands in shared memory.
bool BlockHeuristic::AddPacks(const Product& p) {
  const auto packs = Loads(ctx_, sink_);
  for (size_t i = 0; i < packs.size(); ++i) {
    if (packs[i] != p.loads[0]->node && packs[i] != p.loads[1]->node) continue;
    if (!Add(OptKind::kPack, i, 0)) return false;
  }
  return true;
}

// Two blocks of a processor shall have room for their arrays.
void BlockHeuristic::AddPipeline(const Product& p) {
  if (!target_.async_copies) {
    Add(OptKind::kPipeline, p.k, 2);
    return;
  }
  const int64_t bytes = plan_.SharedBytes();
  for (int64_t parts = kPipelineParts; parts > 1; --parts) {
    if (bytes * parts <= target_.shared_bytes / 2 && Add(OptKind::kPipeline, p.k, parts)) return;
  }
}

bool BlockHeuristic::AddTile(const Product& p) {
  std::vector<std::pair<double, const BlockTile*>> tiles;  // of equal cost the larger one first
  for (const BlockTile& t : kBlockTiles) {
    const double cycles = BlockCycles(t, static_cast<double>(sizes_[p.m]) * p.batch,
                                      static_cast<double>(sizes_[p.n]), p.steps, p.bytes, target_);
    tiles.emplace_back(cycles, &t);
  }
  std::sort(tiles.begin(), tiles.end());
  const auto others = static_cast<int64_t>(p.steps) / sizes_[p.k];
  for (const auto& [cycles, tile] : tiles) {
    const BlockTile& t = *tile;
    Restart();
    const int64_t lanes = std::min<int64_t>(t.columns, 4);
    const bool vectors =
        IsContiguous(p.n, false) && sizes_[p.n] % lanes == 0 && Add(OptKind::kVector, p.n, lanes);
    bool fits = Add(OptKind::kLocal, p.n, t.threads_n);
    const int64_t columns = vectors ? t.columns / lanes : t.columns;
    if (fits && columns > 1) fits = Add(OptKind::kUpcast, p.n, columns);
    fits = fits && Add(OptKind::kUpcast, p.m, t.rows) && Add(OptKind::kLocal, p.m, t.threads_m);
    const int64_t steps = std::max<int64_t>(1, kCopiedSteps / others);
    // Long kernels are worth the time that compilers take for longer code, which is a tenth faster.
    const double products =
        static_cast<double>(sizes_[p.m]) * static_cast<double>(sizes_[p.n]) * p.batch * p.steps;
    const int64_t unrolled = std::min<int64_t>(
        steps, target_.async_copies && products >= kManyProducts ? kCopiedSteps : 4);
    fits = fits && (unrolled == 1 || Add(OptKind::kUnroll, p.k, unrolled)) &&
           Add(OptKind::kBlock, p.k, std::max<int64_t>(1, steps / unrolled)) && AddPacks(p);
    if (!fits) continue;
    AddPipeline(p);
    ChooseRaster(p.m, p.n, static_cast<double>(t.rows * t.threads_m),
                 static_cast<double>(t.columns * t.threads_n));
    return true;
  }
  Restart();
  return false;
}

bool BlockHeuristic::ChooseProduct() {
  const auto product = MaybeProduct();
  return product && (AddGroupTile(*product) || AddWarpTile(*product) || AddTile(*product));
}

}  // namespace uopd::codegen
