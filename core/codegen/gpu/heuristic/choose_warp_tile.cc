// SPDX-License-Identifier: MIT
// The tile of a product whose elements a matrix instruction of the target multiplies (block_heuristic.h).
//
// Each warp of a block computes some tiles of the instruction next to each other. In each step of the sum the
// block copies a piece of both operands to shared memory; a warp loads its words from there. The choice is that with the least estimated time, as for other products.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/codegen/gpu/heuristic/block_heuristic.h"
#include "core/ir/dtype.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kCopied = 32;  // steps of the sum that are copied at a time; half as many of tf32
constexpr double kTensorLanes = 1024;  // multiply-adds of 16 bits of a processor in a cycle
constexpr double kLoadCycles = 0.016;  // to load an element from shared memory, in words
constexpr double kGlobalBytes = 16;    // that a processor gets from memory in a cycle, about

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

double WarpCycles(const WarpShape& s, const MatrixInstruction& i, double m, double n, double steps,
                  double bytes, const Target& target) {
  const auto rows = static_cast<double>(s.warps_m * s.rows * i.m),
             columns = static_cast<double>(s.warps_n * s.columns * i.n);
  const double waves = std::ceil(std::ceil(m / rows) * std::ceil(n / columns) / target.units);
  const double elements =
      rows * static_cast<double>(s.warps_n) + columns * static_cast<double>(s.warps_m);
  const auto halves = static_cast<double>(HalvesOf(i));
  return waves * steps *
         std::max({halves * rows * columns / kTensorLanes, halves * elements * kLoadCycles,
                   bytes * (rows + columns) / kGlobalBytes});
}

}  // namespace

double BlockHeuristic::WarpTileCycles(const Product& p) {
  double best = std::numeric_limits<double>::infinity();
  Restart();
  if (!Add(OptKind::kTensorCore, p.k, 0) || plan_.maybe_instruction()->in_shared()) return best;
  for (const WarpShape& s : kWarpShapes) {
    best = std::min(best, WarpCycles(s, *plan_.maybe_instruction(),
                                     static_cast<double>(sizes_[plan_.rows_axis()]) * p.batch,
                                     static_cast<double>(sizes_[plan_.columns_axis()]), p.steps,
                                     p.bytes, target_));
  }
  return best;
}

// Each element of a window is a step of its own: a piece of all of them would fill the shared memory, and leave room for one
// block of a processor.
bool BlockHeuristic::AddSteps(const Product& p) {
  for (size_t a = 0; a < axes_.size(); ++a) {
    const bool other = a != p.k && (results_[0].over & Bit(a)) != 0 && left_[a] > 1;
    if (other && !Add(OptKind::kBlock, a, 1)) return false;
  }
  return true;
}

bool BlockHeuristic::AddWarpTile(const Product& p) {
  Restart();
  if (!Add(OptKind::kTensorCore, p.k, 0)) return false;
  const MatrixInstruction instruction = *plan_.maybe_instruction();
  if (instruction.in_shared()) return false;
  const size_t m = plan_.rows_axis(), n = plan_.columns_axis();
  std::vector<std::pair<double, const WarpShape*>> shapes;  // of equal cost the larger one first
  for (const WarpShape& s : kWarpShapes) {
    const double cycles = WarpCycles(s, instruction, static_cast<double>(sizes_[m]) * p.batch,
                                     static_cast<double>(sizes_[n]), p.steps, p.bytes, target_);
    shapes.emplace_back(cycles, &s);
  }
  std::sort(shapes.begin(), shapes.end());
  const auto add = [&](OptKind kind, size_t axis, int64_t amount) {
    return amount == 1 || Add(kind, axis, amount);
  };
  for (const auto& [cycles, shape] : shapes) {
    Restart();
    bool fits = Add(OptKind::kTensorCore, p.k, 0);
    left_[m] = (sizes_[m] + instruction.m - 1) / instruction.m;
    left_[n] = (sizes_[n] + instruction.n - 1) / instruction.n;
    left_[p.k] = (sizes_[p.k] + instruction.k - 1) / instruction.k;
    fits =
        fits && add(OptKind::kUpcast, m, shape->rows) && add(OptKind::kUpcast, n, shape->columns) &&
        add(OptKind::kLocal, m, shape->warps_m) && add(OptKind::kLocal, n, shape->warps_n) &&
        add(OptKind::kUnroll, p.k,
            std::clamp<int64_t>(kCopied / HalvesOf(instruction) / instruction.k, 1, left_[p.k])) &&
        Add(OptKind::kBlock, p.k, 1) && AddSteps(p) && AddPacks(p);
    if (!fits) continue;
    AddPipeline(p);
    ChooseRaster(m, n, static_cast<double>(shape->warps_m * shape->rows * instruction.m),
                 static_cast<double>(shape->warps_n * shape->columns * instruction.n));
    return true;
  }
  Restart();
  return false;
}

}  // namespace uopd::codegen
