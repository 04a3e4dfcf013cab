// SPDX-License-Identifier: MIT
// RASTER of a product (block_heuristic.h): the order of its tiles.
//
// The blocks that run at the same time read some stretches of rows of one operand and some stretches of columns of the
// other. In plain order these blocks are neighbours along one axis only, and read nearly all of an operand. Blocks that
// form a square read the least; what they share comes from the cache that all processors share.
#include <algorithm>
#include <cmath>

#include "core/codegen/gpu/heuristic/block_heuristic.h"

namespace uopd::codegen {
namespace {

// More than 8 neighbours were slower on an H200 (products of 4096 rows in bf16: 217 us, with 16 neighbours 256 us).
constexpr int64_t kMostNear = 8;
constexpr double kGain =
    0.9;  // RASTER must read less than this share of what the plain order reads

}  // namespace

void BlockHeuristic::ChooseRaster(size_t m, size_t n, double tile_m, double tile_n) {
  const size_t outer = std::min(m, n), inner = std::max(m, n);
  const double outer_tile = outer == m ? tile_m : tile_n, inner_tile = inner == m ? tile_m : tile_n;
  const auto rows = static_cast<double>(left_[outer]), columns = static_cast<double>(left_[inner]);
  if (left_[outer] < 1 || left_[inner] < 1) return;
  const double running = std::min<double>(target_.units, rows * columns);
  // What the blocks read that run at the same time, for `near` neighbours along the outer axis.
  const auto read = [&](double near) {
    return std::max(near, running / columns) * outer_tile +
           std::min(columns, std::ceil(running / near)) * inner_tile;
  };
  int64_t best = 1;
  double least = kGain * read(1);
  for (int64_t near = 2; near <= std::min(kMostNear, left_[outer]); ++near) {
    if (left_[outer] % near != 0 || read(static_cast<double>(near)) >= least) continue;
    best = near;
    least = read(static_cast<double>(near));
  }
  if (best > 1) Add(OptKind::kRaster, outer, best);
}

}  // namespace uopd::codegen
