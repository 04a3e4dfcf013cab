// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_for_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/target/machine_facts.h"
#include "core/schedule/fusion/describe.h"
#include "core/schedule/kept/product.h"
#include "core/schedule/prepare/split_reduce.h"

namespace uopd::schedule {
namespace {

using ir::UOp;

constexpr double kWorkPerCycle = 16;        // operations (fusion.h) of a processor
constexpr double kBlocksPerUnit = 2;        // that keep a processor busy
constexpr int64_t kLeastTerms = 1024;       // of a chunk
constexpr int64_t kLeastSteps = 128;        // of a chunk of a product
constexpr int64_t kMostPerUnit = 8;         // chunks
constexpr double kSides[] = {128, 64, 32};  // of the tiles of a product
// For sums of more than kLongTerms terms: the most terms that a thread adds to one number, and the
// numbers of a block (256 threads with 4 lanes each).
constexpr int64_t kTermsInTurn = 128, kSumsOfABlock = 1024, kLongTerms = 1 << 20;
// The share of the time of one REDUCE that chunks must not exceed. The estimate is good for no
// finer difference, a second kernel has to be compiled and loaded, and a kernel that uses the
// result then combines chunks besides its own work.
constexpr double kWorthwhile = 0.8;
// A padded axis costs gates; it is taken where no divisor comes as near to the best time.
constexpr double kPaddingFactor = 1.25;

// What is known of a reduction; the time that it takes in `chunks` chunks.
struct Price {
  Speeds speeds;
  double units = 1, elements = 1;
  // No product: blocks, and cycles of all of them on one processor.
  double blocks = 1, cycles = 0;
  // A product.
  bool is_product = false;
  double batch = 1, m = 1, n = 1, k = 1, bytes = 4;
  bool by_instructions = false;

  double Kernel(double chunks) const {
    if (!is_product) {
      // A processor runs several blocks at a time; one block alone leaves a part of it idle.
      const double all = blocks * chunks;
      return std::max(std::ceil(all / units), kBlocksPerUnit) * cycles / all;
    }
    double best = INFINITY;
    for (const double side : kSides) {
      const double tiles = batch * std::ceil(m / side) * std::ceil(n / side) * chunks;
      const double step =
          std::max(side * side / (by_instructions ? speeds.warp_products : speeds.products),
                   2 * bytes * side / speeds.memory_bytes);
      best = std::min(best, std::ceil(tiles / units) * k / chunks * step);
    }
    return best;
  }
  double Of(double chunks) const {
    if (chunks <= 1) return Kernel(1);
    // The results of the chunks are stored by the first kernel and loaded by the second one.
    const double moved = elements * chunks * 2 * kLoadWork / kWorkPerCycle;
    return Kernel(chunks) + speeds.launch_cycles + moved / std::min(units, std::max(blocks, 1.0));
  }
};

// Fills in the part of a product, if u is one whose tiles blocks compute.
void PriceProduct(ir::UOpContext& ctx, Accesses& accesses, UOp u, const KernelLimits& limits,
                  Price& out) {
  const auto p = ProductOf(ctx, accesses, u);
  if (!p) return;
  const MatrixSizes sizes = MatrixSizesOf(*p);
  if (sizes.least() < kLeastTiledSide) return;
  const ir::Dtype a = p->a.base.dtype(), b = p->b.base.dtype();
  const bool tensor = (ir::Bits(a) < 32 || a == ir::Dtype::TF32) &&
                      limits.factors.Has(ir::NumberOf(a)) && limits.factors.Has(ir::NumberOf(b)) &&
                      p->mul.dtype() == u.dtype() && ir::Bits(u.dtype()) == 32;
  out.is_product = true;
  out.m = static_cast<double>(sizes.m), out.n = static_cast<double>(sizes.n);
  out.k = static_cast<double>(sizes.k);
  out.batch = out.elements / out.m / out.n;
  out.bytes = static_cast<double>(std::max(ir::ByteSize(a), ir::ByteSize(b)));
  out.by_instructions = tensor;
  out.blocks = out.batch * std::ceil(out.m / kSides[2]) * std::ceil(out.n / kSides[2]);
}

// The least number of chunks that bounds the error of a sum. Terms that are added to one number in
// turn round in the same direction in the worst case: the error grows with their number. A block
// adds to many numbers, which it combines as a tree.
int64_t LeastChunks(UOp u, int64_t terms) {
  if (u.reduce_op() != ir::Op::ADD || !ir::IsFloat(u.dtype()) || u.dtype() == ir::Dtype::F64)
    return 1;
  if (terms <= kLongTerms) return 1;
  constexpr int64_t kMost = kTermsInTurn * kSumsOfABlock;
  return (terms + kMost - 1) / kMost;
}

}  // namespace

std::optional<Cut> CutForBlocks(ir::UOpContext& ctx, Accesses& accesses, UOp u,
                                const KernelLimits& limits) {
  const auto sizes = SizesOfReduce(ctx, u);
  if (!sizes || sizes->terms < 2 * kLeastSteps) return std::nullopt;
  const ir::Dims& dims = sizes->dims;
  Price price;
  price.speeds = limits.speeds;
  price.units = limits.units;
  price.elements = static_cast<double>(sizes->elements);
  // Whether neighbouring results lie next to each other: the last axis is none of those that are
  // reduced.
  size_t last = dims.size();
  while (last > 0 && dims[last - 1] == 1) --last;
  const bool neighbours =
      last > 0 &&
      std::ranges::find(u.reduce_axes(), static_cast<int64_t>(last) - 1) == u.reduce_axes().end();
  price.blocks = price.elements;
  if (neighbours) {
    const auto row = static_cast<double>(dims[last - 1]);
    price.blocks = price.elements / row * std::ceil(row / kNeighbours);
  }
  price.cycles = sizes->all * (WorkOfTerm(u.src(0)) + 1) / kWorkPerCycle;
  int64_t fewest = neighbours ? 1 : LeastChunks(u, sizes->terms);
  // Most reductions have enough tiles, or too little work, to gain from chunks.
  if (fewest <= 1 && price.Kernel(1) <= limits.speeds.launch_cycles) return std::nullopt;
  PriceProduct(ctx, accesses, u, limits, price);
  if (price.is_product) fewest = 1;
  const int64_t least = price.is_product ? kLeastSteps : kLeastTerms;
  const int64_t most =
      std::max(std::min(kMostPerUnit * limits.units, sizes->terms / std::max<int64_t>(least, 1)),
               fewest > 1 ? 2 * fewest : 1);
  // The outermost axis with the best divisor, so that a chunk is consecutive in memory.
  const double whole = price.Of(1);
  double best = fewest > 1 ? INFINITY : whole * kWorthwhile, best_padded = best;
  std::optional<Cut> cut, padded;
  size_t longest = static_cast<size_t>(u.reduce_axes()[0]);
  for (int64_t a : u.reduce_axes()) {
    const auto axis = static_cast<size_t>(a);
    if (dims[axis] > dims[longest]) longest = axis;
    for (int64_t chunks = std::max<int64_t>(2, fewest); chunks <= std::min(most, dims[axis]);
         ++chunks) {
      if (dims[axis] % chunks != 0) continue;
      const double time = price.Of(static_cast<double>(chunks));
      if (time < best) best = time, cut = Cut{axis, chunks, dims[axis] / chunks};
    }
  }
  for (int64_t chunks = std::max<int64_t>(2, fewest);
       chunks <= std::min(most, dims[longest] / least); ++chunks) {
    // Whole vectors lie in one chunk.
    const int64_t size = (dims[longest] + chunks * 16 - 1) / (chunks * 16) * 16;
    if ((dims[longest] + size - 1) / size != chunks) continue;
    const double time = price.Of(static_cast<double>(chunks)) * static_cast<double>(size) *
                        static_cast<double>(chunks) / static_cast<double>(dims[longest]);
    if (time < best_padded) best_padded = time, padded = Cut{longest, chunks, size};
  }
  // Terms in the padding have a condition, which matrix instructions do not have.
  const bool divisible = cut || dims[longest] % 2 == 0;
  if (price.is_product && (divisible || price.by_instructions)) return cut;
  if (!cut) return padded;
  return best_padded * kPaddingFactor < best ? padded : cut;
}

}  // namespace uopd::schedule
