// SPDX-License-Identifier: MIT
// RASTER of a product (block_heuristic.h): the order of its tiles.
//
// The blocks that run at the same time read some stretches of rows of one operand and some
// stretches of columns of the other. In plain order these blocks are neighbours along one axis
// only, and read nearly all of an operand. Blocks that form a square read the least; what they
// share comes from the cache that all processors share.
#include <algorithm>
#include <cmath>

#include "core/codegen/gpu/heuristic/product.h"

namespace uopd::codegen {
namespace {

// More than 8 neighbours were slower on an H200 (products of 4096 rows in bf16: 217 us, with 16
// neighbours 256 us).
constexpr int64_t kMostNear = 8;
constexpr double kGain =
    0.9;  // RASTER must read less than this share of what the plain order reads

}  // namespace

void ChooseRaster(GpuChoice& choice, const ProductTile& tile) {
  const KernelFacts& facts = choice.facts;
  const size_t outer = std::min(tile.m, tile.n), inner = std::max(tile.m, tile.n);
  const double outer_tile = outer == tile.m ? tile.rows : tile.columns,
               inner_tile = inner == tile.m ? tile.rows : tile.columns;
  const auto rows = static_cast<double>(choice.left[outer]),
             columns = static_cast<double>(choice.left[inner]);
  if (choice.left[outer] < 1 || choice.left[inner] < 1) return;
  const double running = std::min<double>(facts.target.units, rows * columns);
  // What the blocks read that run at the same time, for `near` neighbours along the outer axis.
  const auto read = [&](double near) {
    return std::max(near, running / columns) * outer_tile +
           std::min(columns, std::ceil(running / near)) * inner_tile;
  };
  int64_t best = 1;
  double least = kGain * read(1);
  for (int64_t near = 2; near <= std::min(kMostNear, choice.left[outer]); ++near) {
    if (choice.left[outer] % near != 0 || read(static_cast<double>(near)) >= least) continue;
    best = near;
    least = read(static_cast<double>(near));
  }
  if (best > 1) choice.Add(OptKind::kRaster, outer, best);
}

}  // namespace uopd::codegen
