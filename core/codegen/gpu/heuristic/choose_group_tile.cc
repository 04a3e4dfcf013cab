// SPDX-License-Identifier: MIT
// The tile of a product for a matrix instruction of a group of warps, which reads its operands from
// shared memory (block_heuristic.h).
//
// Each group of a block computes one or two tiles of the instruction. In each step of the sum the
// block copies a piece of both operands: 128 bytes of every row, the widest span. The choice is the
// shape with the least estimated time. It competes with the best tile of an instruction of one warp
// (choose_warp_tile.cc), which suits small products.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/text.h"
#include "core/codegen/gpu/heuristic/product.h"
#include "core/ir/role.h"
#include "core/rewrite/rewrite_trace.h"

namespace uopd::codegen {
namespace {

constexpr int64_t kPieceBytes = 128;        // of a row that are copied at a time
constexpr int64_t kGroupParts = 4;          // of the shared arrays, at most
constexpr int64_t kMostAccumulators = 128;  // registers of a thread
// That it should have besides. On an H200 products of 4096 and 8192 rows with tiles of 128
// accumulators take 6 % less time where a group that copies leaves them 240 registers than with the
// 224 that they have beside one warp.
constexpr int64_t kOtherRegisters = 100;
// Warps that copy alone save in each step the barrier of the block, and the beginning of copies by
// a warp that computes. They take time once: to make more barriers, and to begin. Measured on an
// H200.
constexpr double kRoleCycles = 400;

// Groups along rows, and tiles of each group along rows.
struct GroupShape {
  int64_t groups, rows;
};
constexpr GroupShape kGroupShapes[] = {{2, 2}, {2, 1}, {1, 2}, {1, 1}};

double GroupCycles(const GroupShape& s, const MatrixInstruction& i, const ProductSize& p,
                   const Target& target) {
  const auto tiles = static_cast<double>(s.groups * s.rows);
  const double rows = tiles * i.m, columns = i.n;
  const double waves = std::ceil(std::ceil(p.m / rows) * std::ceil(p.n / columns) / target.units);
  return waves * p.steps *
         std::max({rows * columns * p.bytes / 2 / target.speeds.warpgroup_products,
                   tiles * (i.m + columns) * p.bytes / target.speeds.shared_bytes,
                   (rows + columns) * p.bytes / target.speeds.second_level_bytes});
}

// Warps that copy alone, for a block of so many groups whose sum has so many steps.
int64_t ProducerWarps(int64_t groups, int64_t accumulators, const MatrixInstruction& i,
                      double steps, const Target& target) {
  const int64_t threads = groups * i.sum_place.lanes();
  if (!target.bulk_copies || steps * target.speeds.barrier_cycles <= kRoleCycles) return 0;
  const auto fits = [&](int64_t warps) {
    return threads + warps * target.warp_lanes <= target.max_block_threads;
  };
  // One warp, unless it leaves too few registers to the others.
  if (accumulators + kOtherRegisters <= ir::WarpRole::AtLaunch(threads + target.warp_lanes))
    return fits(1) ? 1 : 0;
  return fits(4) ? 4 : 0;
}

}  // namespace

bool AddGroupTile(GpuChoice& choice, const MatrixProduct& p) {
  const KernelFacts& facts = choice.facts;
  struct Choice {
    double cycles;
    size_t order;    // of equal cost the first one: the widest instruction, the most rows
    int64_t number;  // of the instruction, as TC counts them
    MatrixInstruction instruction;
    GroupShape shape;
  };
  std::vector<Choice> choices;
  // f32 that is rounded to tf32 cannot be copied ahead for such an instruction. One of a warp
  // rounds what it loads.
  const bool stored = std::ranges::all_of(
      p.loads, [](const Access* x) { return x->node.dtype() == ir::Dtype::TF32; });
  const auto instructions = static_cast<int64_t>(facts.target.matrix_instructions.size());
  for (int64_t number = 1; number <= instructions; ++number) {
    choice.Restart();
    if (!choice.Add(OptKind::kTensorCore, p.k, number)) break;
    const MatrixInstruction i = *choice.plan.maybe_instruction();
    if (!i.in_shared() || (i.a == DtypeNumber::TF32 && !stored)) continue;
    for (const GroupShape& s : kGroupShapes) {
      if (s.rows * i.sum_place.elements() > kMostAccumulators) continue;
      const double cycles = GroupCycles(
          s, i, SizeAlong(facts, p, choice.plan.rows_axis(), choice.plan.columns_axis()),
          facts.target);
      choices.push_back({cycles, choices.size(), number, i, s});
    }
  }
  std::ranges::sort(choices, {}, [](const Choice& c) { return std::pair(c.cycles, c.order); });
  const double warps = choices.empty() ? 0 : WarpTileCycles(choice, p);
  for (const Choice& c : choices) {
    if (c.cycles >= warps) break;
    choice.Restart();
    bool fits = choice.Add(OptKind::kTensorCore, p.k, c.number);
    const size_t m = choice.plan.rows_axis();
    const size_t n = choice.plan.columns_axis();
    choice.left[n] = (facts.sizes[n] + c.instruction.n - 1) / c.instruction.n;
    choice.left[m] = (facts.sizes[m] + c.instruction.m - 1) / c.instruction.m;
    choice.left[p.k] = (facts.sizes[p.k] + c.instruction.k - 1) / c.instruction.k;
    const int64_t piece = kPieceBytes / static_cast<int64_t>(p.bytes) / c.instruction.k;
    const int64_t unrolled = std::min(piece, choice.left[p.k]);
    const auto add = [&](OptKind kind, size_t axis, int64_t amount) {
      return amount <= 1 || choice.Add(kind, axis, amount);
    };
    fits = fits && add(OptKind::kUpcast, m, c.shape.rows) &&
           add(OptKind::kLocal, m, c.shape.groups) && add(OptKind::kUnroll, p.k, unrolled) &&
           choice.Add(OptKind::kBlock, p.k, 1);
    if (!fits) continue;
    const int64_t producers = ProducerWarps(
        c.shape.groups, c.shape.rows * c.instruction.sum_place.elements(), c.instruction,
        static_cast<double>(facts.sizes[p.k]) / static_cast<double>(unrolled * c.instruction.k),
        facts.target);
    for (int64_t parts = kGroupParts; facts.target.async_copies && parts > 1; --parts) {
      if (choice.Add(OptKind::kPipeline, p.k, parts, producers)) break;
    }
    ChooseRaster(choice,
                 {m, n, static_cast<double>(c.shape.groups * c.shape.rows * c.instruction.m),
                  static_cast<double>(c.instruction.n)});
    if (rewrite::TracesNotes())
      rewrite::TraceNote(Cat(
          "tiles of ", c.shape.groups * c.shape.rows * c.instruction.m, " x ", c.instruction.n,
          " by ", c.instruction.name, " are estimated at ", std::llround(c.cycles),
          " cycles, the best of ", choices.size(),
          std::isinf(warps) ? Cat(", and no warp has an instruction")
                            : Cat("; those of an instruction of a warp at ", std::llround(warps)),
          ": ", Text(choice.plan.opts())));
    return true;
  }
  choice.Restart();
  return false;
}

}  // namespace uopd::codegen
