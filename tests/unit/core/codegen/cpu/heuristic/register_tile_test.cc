// SPDX-License-Identifier: MIT
#include "core/codegen/cpu/heuristic/register_tile.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace uopd::codegen {
namespace {

Target CachedTarget() {
  Target t;
  t.vector_bytes = 64, t.vector_registers = 32;
  t.caches = {{48 << 10, 1}, {1 << 20, 1}};
  return t;
}

// A load of axis 0 (rows, one element at a time) and one of axis 1 (vectors), as in a matrix
// product of `k` steps whose rows are `row_bytes` apart.
std::vector<TileLoad> MatmulLoads(double k, int64_t row_bytes) {
  TileLoad a{.along = 1, .steps = k, .strides = {row_bytes, 0}};
  TileLoad b{.along = 2, .bytes = 64, .steps = k, .strides = {0, 64}};
  return {a, b};
}

int64_t Amount(const Tile& tile, size_t axis) {
  for (const auto& [a, n] : tile.amounts) {
    if (a == axis) return n;
  }
  return 1;
}

TEST(RegisterTileTest, FillsTheRegistersAndFits) {
  const Tile tile = ChooseRegisterTile(std::vector<TileAxis>{{0, 512}, {1, 32}},
                                       MatmulLoads(512, 2064), {}, CachedTarget());
  const int64_t rows = Amount(tile, 0), vectors = Amount(tile, 1);
  EXPECT_EQ(tile.accumulators, rows * vectors);
  EXPECT_GE(tile.accumulators, 20);
  // The vectors are needed again for each row.
  EXPECT_LE(tile.accumulators + vectors + 1, 32);
}

// Also of tiles along one axis, which the search meets once with each other axis.
TEST(RegisterTileTest, TheNextBestIsAnotherTile) {
  for (const std::vector<TileAxis>& axes :
       {std::vector<TileAxis>{{0, 512}, {1, 32}}, {{0, 1}, {1, 32}}, {{0, 512}, {1, 1}}}) {
    Tile next;
    const Tile tile = ChooseRegisterTile(axes, MatmulLoads(512, 2064), {}, CachedTarget(), &next);
    EXPECT_GT(next.rate, 0);
    EXPECT_LE(next.rate, 1.001 * tile.rate);
    EXPECT_NE(next.amounts, tile.amounts);
  }
}

TEST(RegisterTileTest, ValuesThatCopiesOfTheFirstAxisShareFitToo) {
  // Nine vectors side by side would be in registers while rows are computed one after the other.
  const Tile tile = ChooseRegisterTile(std::vector<TileAxis>{{0, 3}, {1, 9}}, MatmulLoads(24, 96),
                                       {}, CachedTarget());
  EXPECT_GE(tile.accumulators, 9);
  EXPECT_LE(tile.accumulators + Amount(tile, 1) + 1, 32);
}

// A depthwise convolution over 28 x 28 pixels, 3 x 3 terms unrolled.
TEST(RegisterTileTest, NeighbouringWindowsShareElements) {
  const std::vector<TileAxis> axes = {{1, 28}, {0, 28}};
  TileLoad x{.along = 3, .bytes = 64, .steps = 9, .strides = {10752, 384}};
  TileLoad w{.bytes = 64, .steps = 9, .strides = {0, 0}};
  TileSums sums;
  sums.terms = 9;
  const Tile apart = ChooseRegisterTile(axes, std::vector<TileLoad>{x, w}, sums, CachedTarget());
  x.windows = {{0, 1, 3}, {1, 1, 3}};
  const Tile windows = ChooseRegisterTile(axes, std::vector<TileLoad>{x, w}, sums, CachedTarget());
  EXPECT_GE(windows.accumulators, 4);
  // The nine factors and the terms of one sum are in registers too.
  EXPECT_LE(windows.accumulators + 2 * 9 + 1, 32);
  EXPECT_GT(apart.accumulators, windows.accumulators) << "without windows only sums are alive";
}

// One row of x for a step takes three instructions out of a word, or comes from a loop around.
TEST(RegisterTileTest, RowsShareWhatTakesElementsOutOfWords) {
  const std::vector<TileAxis> axes = {{0, 512}, {1, 32}};
  std::vector<TileLoad> loads = MatmulLoads(512, 2064);
  const Tile plain = ChooseRegisterTile(axes, loads, {}, CachedTarget());
  loads[1].work = 3;
  const Tile words = ChooseRegisterTile(axes, loads, {}, CachedTarget());
  EXPECT_GT(Amount(words, 0), Amount(plain, 0));
  EXPECT_LT(words.rate, plain.rate);
}

TEST(RegisterTileTest, LoadsOfLoopsAroundCostLittle) {
  const std::vector<TileAxis> axes = {{0, 512}, {1, 32}};
  std::vector<TileLoad> loads = MatmulLoads(512, 2064);
  const Tile plain = ChooseRegisterTile(axes, loads, {}, CachedTarget());
  for (int i = 0; i < 3; ++i) loads.push_back({.along = 2, .bytes = 64, .strides = {0, 64}});
  const Tile inner = ChooseRegisterTile(axes, loads, {}, CachedTarget());
  for (size_t i = 2; i < loads.size(); ++i) loads[i].often = 1.0 / 64;
  const Tile around = ChooseRegisterTile(axes, loads, {}, CachedTarget());
  EXPECT_EQ(around.amounts, plain.amounts);
  EXPECT_GT(around.rate, inner.rate);
}

// The part of the time for which two threads have work, if they share the tiles of rows or panels.
TEST(RegisterTileTest, ThreadsShareTilesEqually) {
  const auto busy = [](int64_t tiles) {
    return tiles / (2.0 * static_cast<double>((tiles + 1) / 2));
  };
  int better = 0;
  for (int64_t rows = 20; rows <= 80; ++rows) {
    const std::vector<TileAxis> axes = {{1, 3}, {0, rows}};
    const auto share = [&](int64_t threads) {
      const Tile tile =
          ChooseRegisterTile(axes, MatmulLoads(576, 2320), {.threads = threads}, CachedTarget());
      EXPECT_GE(tile.accumulators, 8);
      const int64_t n = Amount(tile, 0), m = Amount(tile, 1);
      return std::max(busy((rows + n - 1) / n), busy((3 + m - 1) / m));
    };
    const double alone = share(1), two = share(2);
    EXPECT_GE(two, alone - 0.1) << rows;
    better += two > alone + 0.05;
  }
  EXPECT_GE(better, 5);
}

TEST(RegisterTileTest, SeveralSumsShareTheRegisters) {
  const std::vector<TileAxis> axes = {{0, 512}, {1, 32}};
  const Tile two = ChooseRegisterTile(axes, MatmulLoads(512, 2064), {.count = 2}, CachedTarget());
  EXPECT_LE(2 * two.accumulators, 30);
  EXPECT_GE(two.accumulators, 8);
  const Tile many = ChooseRegisterTile(axes, MatmulLoads(512, 2064), {.count = 40}, CachedTarget());
  EXPECT_EQ(many.accumulators, 1) << "more sums than registers";
}

TEST(RegisterTileTest, RowsThatShareASetStayFew) {
  const std::vector<TileAxis> axes = {{0, 1024}, {1, 64}};
  const Tile crowded = ChooseRegisterTile(axes, MatmulLoads(1024, 4096), {}, CachedTarget());
  EXPECT_LE(Amount(crowded, 0), 8);
  const Tile spread = ChooseRegisterTile(axes, MatmulLoads(1024, 4160), {}, CachedTarget());
  EXPECT_GT(Amount(spread, 0), 8);
}

// Pixels of a convolution with windows of 3: neighbours in a row, or the same pixel of several
// pictures.
TEST(RegisterTileTest, PixelsOfSeveralPicturesUsePiecesOfLines) {
  TileLoad x{.along = 3, .instructions = 1.5, .steps = 4608, .strides = {100352, 4, 0}};
  x.run_bytes = 12;
  const TileLoad w{.along = 4, .bytes = 64, .steps = 4608, .strides = {0, 0, 294912}};
  const std::vector<TileAxis> axes = {{0, 8}, {1, 7}, {2, 32}};
  const Tile pieces = ChooseRegisterTile(axes, std::vector<TileLoad>{x, w}, {}, CachedTarget());
  EXPECT_EQ(Amount(pieces, 0), 1);
  EXPECT_EQ(Amount(pieces, 1), 7);
  x.run_bytes = 64;
  const Tile whole = ChooseRegisterTile(axes, std::vector<TileLoad>{x, w}, {}, CachedTarget());
  EXPECT_GT(Amount(whole, 0), 1);
}

TEST(RegisterTileTest, NoMoreCopiesThanCanBePacked) {
  const std::vector<TileAxis> axes = {{0, 3}, {.axis = 1, .size = 32, .most = 2}};
  const Tile tile = ChooseRegisterTile(axes, MatmulLoads(512, 2064), {}, CachedTarget());
  EXPECT_EQ(Amount(tile, 1), 2);
}

TEST(RegisterTileTest, PrefersTilesThatWasteLittle) {
  // 7 rows: two tiles of 4 would compute 8.
  const Tile tile = ChooseRegisterTile(std::vector<TileAxis>{{0, 7}, {1, 64}},
                                       MatmulLoads(256, 1040), {}, CachedTarget());
  EXPECT_EQ(Amount(tile, 0), 7);
}

TEST(RegisterTileTest, JoinedLanesWantPowersOfTwo) {
  const Tile tile = ChooseRegisterTile(std::vector<TileAxis>{{0, 500}, {1, 500}},
                                       MatmulLoads(512, 2064), {.joins = true}, CachedTarget());
  for (const auto& [axis, n] : tile.amounts) EXPECT_EQ(n & (n - 1), 0) << axis;
  EXPECT_GT(tile.accumulators, 1);
}

// A vector times a matrix of bf16 with 2048 columns: 16 lanes a step.
TEST(RegisterTileTest, RowsThatComeFromMemoryAreReadOneAfterTheOther) {
  const std::vector<TileAxis> axes = {{0, 8192}};
  TileLoad x{.along = 2, .bytes = 64, .steps = 128, .strides = {0, 64}};
  TileLoad w{.along = 3, .bytes = 64, .steps = 128, .strides = {4096, 32}};
  const TileSums sums{.joins = true};
  const Tile cached = ChooseRegisterTile(axes, std::vector<TileLoad>{x, w}, sums, CachedTarget());
  EXPECT_GE(cached.accumulators, 4);
  w.memory_bytes = 32;
  const Tile streamed = ChooseRegisterTile(axes, std::vector<TileLoad>{x, w}, sums, CachedTarget());
  EXPECT_EQ(streamed.accumulators, 1);
}

TEST(RegisterTileTest, NarrowTargetsGetSmallTiles) {
  Target narrow;
  narrow.vector_registers = 16;
  const Tile tile = ChooseRegisterTile(std::vector<TileAxis>{{0, 512}, {1, 32}},
                                       MatmulLoads(512, 2064), {}, narrow);
  EXPECT_LE(tile.accumulators, 14);
  EXPECT_GE(tile.accumulators, 8);
}

}  // namespace
}  // namespace uopd::codegen
