// SPDX-License-Identifier: MIT
// BlockHeuristic: the steps that choose the opts of a kernel for a target with blocks, in the order of
// Run. Each opt is kept only if it applies.
//   0. Short axes of products are merged (choose_merge.cc).
//   1. Products of matrices: a tile of the result for each block, operands in shared memory
//      (choose_product.cc), by a matrix instruction where the target has one: of a group of warps
//      (choose_group_tile.cc) or of one warp (choose_warp_tile.cc). No other step follows.
//   2. Vectors: the widest access along an axis that is contiguous in memory.
//   3. Long reductions with few results, or along which memory is contiguous: a group of threads for
//      each result.
//   4. Threads along the output axes.
//   5. Short reductions are unrolled.
//
// Invariant: left_ and threads_ describe the opts that plan_ holds.
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "core/codegen/opts/choose/kernel_facts.h"
#include "core/codegen/opts/opt_plan.h"

namespace uopd::codegen {

// Not thread-safe. The context and the target must outlive it.
class BlockHeuristic : KernelFacts {
 public:
  // REQUIRES: as KernelFacts; target.blocks.
  BlockHeuristic(ir::UOpContext& ctx, ir::UOp sink, const Target& target)
      : KernelFacts(ctx, sink, target), plan_(ctx, sink, target), left_(sizes_) {}

  // REQUIRES: one of Run and ProductOpts is called, once.
  std::vector<Opt> Run();
  // The tile of a product; no opts: the kernel is no product with one.
  std::vector<Opt> ProductOpts();
  // In choose_merge.cc. MERGEs after which the tiles of a product have less padding; none: the axes are long enough, or
  // the kernel is no product.
  std::vector<Opt> Merges() const;

 private:
  // A product of matrices: its loads, its axes, and how often it is done.
  struct Product {
    const Access* loads[2];
    size_t m, n, k;       // n: the results along it are contiguous, if they are along any
    double batch, steps;  // products; terms of a result
    double bytes;         // of an element
  };
  // In choose_product.cc. Whether the kernel is a product and got a tile.
  bool ChooseProduct();
  std::optional<Product> MaybeProduct() const;
  // The two loads of the only sum.
  std::optional<std::array<const Access*, 2>> MaybeFactors() const;
  // Whether a is an output axis along which `x` moves and `other` does not.
  bool IsOwnAxis(const Access& x, const Access& other, size_t a) const {
    return !IsReduce(a) && fixed_[a] && x.strides[a] != 0 && other.strides[a] == 0;
  }
  bool AddTile(const Product& p);
  bool AddPacks(const Product& p);
  void AddPipeline(const Product& p);
  // In choose_warp_tile.cc. Whether the product got a tile of a matrix instruction.
  bool AddWarpTile(const Product& p);
  bool AddSteps(const Product& p);
  // The estimated time of the best of these tiles; infinite: the target has no such instruction.
  double WarpTileCycles(const Product& p);
  // In choose_group_tile.cc. Whether the product got a tile of an instruction of a group of warps.
  bool AddGroupTile(const Product& p);
  // In choose_raster.cc. `m` and `n` are the axes of the tiles, `tile_m` and `tile_n` their sizes.
  void ChooseRaster(size_t m, size_t n, double tile_m, double tile_n);

  void ChooseVectors();
  void ChooseGroups();
  void ChooseLocals();
  void ChooseUnroll();

  // The axes of the reductions that the axis belongs to, and of the loops around them; of an output axis all output axes too.
  AxisSet NestOf(size_t axis) const;
  // Of the elements that fill an access along the axis: the smallest ones that a reduction reads.
  int64_t ElementBytes(size_t axis) const;
  // Whether each block goes over rows of memory several times.
  bool ReadsRowsAgain() const;
  // The threads that a block should have. Rows that are read several times get so many that the rows of all blocks of a processor
  // stay in its cache.
  int64_t BlockThreads() const;
  // Whether the iterations of an output axis become blocks: every long reduction depends on the axis.
  bool IsGrid(size_t axis) const;
  // The product of the sizes of the output axes that become blocks or threads.
  double Results() const;
  // Whether all stores are contiguous along the axis, or all loads if `loads`.
  bool IsContiguous(size_t axis, bool loads) const;
  // Results of a block that lie next to each other in what the kernel loads: threads that a group leaves to them.
  int64_t Neighbours() const;
  bool Add(OptKind kind, size_t axis, int64_t amount, int64_t warps = 0);
  void Restart() {
    plan_.Clear();
    left_ = sizes_;
  }

  OptPlan plan_;
  std::vector<int64_t> left_;  // iterations left of each axis
  int64_t threads_ = 1;        // of a block, along output axes
  int64_t group_ = 1;          // threads of the groups
};

// The opts of a kernel for a target with blocks, with the MERGEs that give a product its tile. In choose_merge.cc.
// REQUIRES: as KernelFacts; target.blocks.
std::vector<Opt> GpuOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

}  // namespace uopd::codegen
