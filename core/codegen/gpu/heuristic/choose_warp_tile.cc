// SPDX-License-Identifier: MIT
// The tile of a product whose elements a matrix instruction of the target multiplies
// (block_heuristic.h).
//
// Each warp of a block computes some tiles of the instruction next to each other. In each step of
// the sum the block copies a piece of both operands to shared memory; a warp loads its words from
// there. The choice is that with the least estimated time, as for other products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/text.h"
#include "core/codegen/gpu/heuristic/product.h"
#include "core/ir/dtype.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kCopied = 32;  // steps of the sum that are copied at a time; half as many of tf32
constexpr double kHalfBytes = 2;

// Warps along rows and columns, and tiles of the instruction of each warp. Largest first.
struct WarpShape {
  int64_t warps_m, warps_n, rows, columns;
};
constexpr WarpShape kWarpShapes[] = {{2, 4, 4, 4}, {2, 2, 4, 4}, {2, 2, 2, 4}, {2, 2, 2, 2},
                                     {1, 2, 2, 2}, {1, 1, 2, 2}, {1, 1, 1, 1}};

// How many elements of 16 bits an element of the instruction is; smaller ones count as one.
int64_t HalvesOf(const MatrixInstruction& i) {
  return std::max<int64_t>(1, ir::ByteSize(*ir::DtypeByWire(static_cast<uint64_t>(i.a))) / 2);
}

double WarpCycles(const WarpShape& s, const MatrixInstruction& i, const ProductSize& p,
                  const Target& target) {
  const auto rows = static_cast<double>(s.warps_m * s.rows * i.m),
             columns = static_cast<double>(s.warps_n * s.columns * i.n);
  const double waves = std::ceil(std::ceil(p.m / rows) * std::ceil(p.n / columns) / target.units);
  const double elements =
      rows * static_cast<double>(s.warps_n) + columns * static_cast<double>(s.warps_m);
  const auto halves = static_cast<double>(HalvesOf(i));
  return waves * p.steps *
         std::max({halves * rows * columns / target.speeds.warp_products,
                   halves * elements * kHalfBytes / target.speeds.shared_bytes,
                   p.bytes * (rows + columns) / target.speeds.memory_bytes});
}

// Each element of a window is a step of its own: a piece of all of them would fill the shared
// memory, and leave room for one block of a processor.
bool AddSteps(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  for (size_t a = 0; a < facts.axes.size(); ++a) {
    const bool other = a != p.k && (facts.results[0].over & AxisBit(a)) != 0 && choice.left[a] > 1;
    if (other && !choice.Add(OptKind::kBlock, a, 1)) return false;
  }
  return true;
}

}  // namespace

double WarpTileCycles(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  double best = std::numeric_limits<double>::infinity();
  choice.Restart();
  if (!choice.Add(OptKind::kTensorCore, p.k, 0) || choice.plan.maybe_instruction()->in_shared())
    return best;
  for (const WarpShape& s : kWarpShapes) {
    best = std::min(
        best, WarpCycles(s, *choice.plan.maybe_instruction(),
                         SizeAlong(facts, p, choice.plan.rows_axis(), choice.plan.columns_axis()),
                         facts.target));
  }
  return best;
}

bool AddWarpTile(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  choice.Restart();
  if (!choice.Add(OptKind::kTensorCore, p.k, 0)) return false;
  const MatrixInstruction instruction = *choice.plan.maybe_instruction();
  if (instruction.in_shared()) return false;
  const size_t m = choice.plan.rows_axis(), n = choice.plan.columns_axis();
  std::vector<std::pair<double, const WarpShape*>> shapes;  // of equal cost the larger one first
  for (const WarpShape& s : kWarpShapes) {
    const double cycles = WarpCycles(s, instruction, SizeAlong(facts, p, m, n), facts.target);
    shapes.emplace_back(cycles, &s);
  }
  std::sort(shapes.begin(), shapes.end());
  const auto add = [&](OptKind kind, size_t axis, int64_t amount) {
    return amount == 1 || choice.Add(kind, axis, amount);
  };
  for (const auto& [cycles, shape] : shapes) {
    choice.Restart();
    bool fits = choice.Add(OptKind::kTensorCore, p.k, 0);
    choice.left[m] = (facts.sizes[m] + instruction.m - 1) / instruction.m;
    choice.left[n] = (facts.sizes[n] + instruction.n - 1) / instruction.n;
    choice.left[p.k] = (facts.sizes[p.k] + instruction.k - 1) / instruction.k;
    fits = fits && add(OptKind::kUpcast, m, shape->rows) &&
           add(OptKind::kUpcast, n, shape->columns) && add(OptKind::kLocal, m, shape->warps_m) &&
           add(OptKind::kLocal, n, shape->warps_n) &&
           add(OptKind::kUnroll, p.k,
               std::clamp<int64_t>(kCopied / HalvesOf(instruction) / instruction.k, 1,
                                   choice.left[p.k])) &&
           choice.Add(OptKind::kBlock, p.k, 1) && AddSteps(choice, p) && AddPacks(choice, p);
    if (!fits) continue;
    AddPipeline(choice, p);
    ChooseRaster(choice, {m, n, static_cast<double>(shape->warps_m * shape->rows * instruction.m),
                          static_cast<double>(shape->warps_n * shape->columns * instruction.n)});
    if (rewrite::TracesNotes())
      rewrite::TraceNote(Cat("tiles of ", shape->warps_m * shape->rows * instruction.m, " x ",
                             shape->warps_n * shape->columns * instruction.n, " by ",
                             instruction.name, " are estimated at ", std::llround(cycles),
                             " cycles, the best of those that fit: ", Text(choice.plan.opts())));
    return true;
  }
  choice.Restart();
  return false;
}

}  // namespace uopd::codegen
