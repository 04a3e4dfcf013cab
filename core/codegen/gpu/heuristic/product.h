// SPDX-License-Identifier: MIT
// A product of matrices, and its tile for each block (block_heuristic.h).
#pragma once
#include <array>
#include <optional>
#include <vector>

#include "core/codegen/gpu/heuristic/gpu_choice.h"

namespace uopd::codegen {

// A product of matrices: its loads, its axes, and how often it is done.
struct MatrixProduct {
  const Access* loads[2];
  size_t m, n, k;       // n: the results along it are contiguous, if they are along any
  double batch, steps;  // products; terms of a result
  double bytes;         // of an element
};

// The size of a product for an estimate. Results along m count once for each product of the batch.
struct ProductSize {
  double m, n, steps;  // steps: terms of a result
  double bytes;        // of an element
};

// `rows` and `columns` are the axes of the tiles.
inline ProductSize SizeAlong(const KernelFacts& facts, const MatrixProduct& p, size_t rows,
                             size_t columns) {
  return {static_cast<double>(facts.sizes[rows]) * p.batch,
          static_cast<double>(facts.sizes[columns]), p.steps, p.bytes};
}

// The axes and the size of a tile.
struct ProductTile {
  size_t m, n;
  double rows, columns;  // results along m and n
};

// In choose_merge.cc.
// MERGEs after which the tiles of a product have less padding; none: the axes are long enough, or
// the kernel is no product.
std::vector<Opt> MergesOf(const KernelFacts& facts);

// In choose_product.cc.
// Whether the kernel is a product and got a tile.
bool ChooseProduct(GpuChoice& choice);
// The two loads of the only sum.
std::optional<std::array<const Access*, 2>> MaybeFactors(const KernelFacts& facts);
// Whether a is an output axis along which `x` moves and `other` does not.
inline bool IsOwnAxis(const KernelFacts& facts, const Access& x, const Access& other, size_t a) {
  return !IsReduce(facts, a) && facts.fixed[a] && x.strides[a] != 0 && other.strides[a] == 0;
}
// Both operands in shared memory.
bool AddPacks(GpuChoice& choice, const MatrixProduct& p);
// Two blocks of a processor shall have room for their arrays.
void AddPipeline(GpuChoice& choice, const MatrixProduct& p);

// In choose_warp_tile.cc.
// Whether the product got a tile of a matrix instruction.
bool AddWarpTile(GpuChoice& choice, const MatrixProduct& p);
// The estimated time of the best of these tiles; infinite: the target has no such instruction.
double WarpTileCycles(GpuChoice& choice, const MatrixProduct& p);

// In choose_group_tile.cc.
// Whether the product got a tile of an instruction of a group of warps.
bool AddGroupTile(GpuChoice& choice, const MatrixProduct& p);

// In choose_raster.cc.
void ChooseRaster(GpuChoice& choice, const ProductTile& tile);

}  // namespace uopd::codegen
