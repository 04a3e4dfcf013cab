// SPDX-License-Identifier: MIT
#include "core/search/seeds.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::search {
namespace {

using codegen::Opt;
using codegen::OptKind;

Target Vectors(int threads) {
  Target target;
  target.vector_bytes = 32;
  target.threads = threads;
  return target;
}

const Opt* MaybeOpt(const Opts& opts, OptKind kind) {
  const auto at = std::ranges::find(opts, kind, &Opt::kind);
  return at == opts.end() ? nullptr : &*at;
}

// A matrix product: rows, columns, a sum.
SearchSpace Product() {
  SearchSpace out;
  out.axes = {{96, false}, {60, false}, {512, true}};
  return out;
}

TEST(SeedsTest, FillVectorsAndRegistersAlongDifferentAxes) {
  const std::vector<Opts> seeds = Seeds(Product(), Vectors(4));
  std::set<std::pair<int, int>> pairs;
  for (const Opts& seed : seeds) {
    EXPECT_EQ(seed, Canonical(seed));
    EXPECT_EQ(std::ranges::count(seeds, seed), 1);
    const Opt *const vector = MaybeOpt(seed, OptKind::kVector),
                     *const upcast = MaybeOpt(seed, OptKind::kUpcast),
                     *const thread = MaybeOpt(seed, OptKind::kThread);
    ASSERT_NE(vector, nullptr);
    EXPECT_EQ(vector->amount, 8);
    ASSERT_NE(thread, nullptr);
    EXPECT_EQ(*thread, (Opt{OptKind::kThread, 0, 4}));
    if (std::ranges::count(seed, OptKind::kUpcast, &Opt::kind) > 1) continue;  // a tile
    if (MaybeOpt(seed, OptKind::kUnroll) != nullptr) continue;                 // a wide sum
    pairs.emplace(vector->axis, upcast != nullptr ? upcast->axis : -1);
    if (upcast != nullptr) {
      EXPECT_EQ(upcast->amount, upcast->axis == 0 ? 8 : 6) << "60 is no multiple of 8 or 7";
    }
  }
  EXPECT_THAT(pairs, testing::UnorderedElementsAre(
                         std::pair(0, -1), std::pair(1, -1), std::pair(2, -1), std::pair(0, 1),
                         std::pair(1, 0), std::pair(2, 0), std::pair(2, 1)));
}

// The sums of a tile fill most of the 16 registers, and leave some for what is added to them.
TEST(SeedsTest, TilesFillTheRegisters) {
  std::vector<Opts> tiles;
  for (const Opts& seed : Seeds(Product(), Vectors(4))) {
    Opts upcasts;
    std::ranges::copy_if(seed, std::back_inserter(upcasts),
                         [](const Opt& o) { return o.kind == OptKind::kUpcast; });
    if (upcasts.size() < 2) continue;
    ASSERT_EQ(upcasts.size(), 2);
    EXPECT_FALSE(
        Product().axes[static_cast<size_t>(MaybeOpt(seed, OptKind::kVector)->axis)].is_reduce);
    const int64_t sums = upcasts[0].amount * upcasts[1].amount;
    EXPECT_EQ(sums, 12) << "of 6 rows; 8 rows would need 16 registers";
    tiles.push_back(upcasts);
  }
  // Two vectors of each of six rows, along the axis of the vectors. Eight rows have no room for a
  // second column.
  EXPECT_THAT(tiles,
              testing::ElementsAre(Opts{{OptKind::kUpcast, 0, 2}, {OptKind::kUpcast, 1, 6}}));
}

// Two products a cycle that take four cycles: eight sums, or as many as divide the axis.
TEST(SeedsTest, WideSumsKeepTheProcessorBusy) {
  const auto wide = [](int64_t size) {
    SearchSpace kernel;
    kernel.axes = {{96, false}, {size, true}};
    std::vector<Opts> out;
    std::ranges::copy_if(Seeds(kernel, Vectors(4)), std::back_inserter(out), [](const Opts& seed) {
      return MaybeOpt(seed, OptKind::kUnroll) != nullptr;
    });
    return out;
  };
  const auto sums = [](int64_t n) {
    return Opts{{OptKind::kThread, 0, 4}, {OptKind::kVector, 1, 8}, {OptKind::kUnroll, 1, n}};
  };
  EXPECT_THAT(wide(512), testing::ElementsAre(sums(8)));
  EXPECT_THAT(wide(48), testing::ElementsAre(sums(2)));
  EXPECT_THAT(wide(8), testing::IsEmpty());
  EXPECT_THAT(wide(0), testing::IsEmpty()) << "a symbolic size";
}

// An axis that no amount divides is padded; a short one is taken whole.
TEST(SeedsTest, TilesOfOddAxesArePadded) {
  SearchSpace kernel;
  kernel.axes = {{64, false}, {7, false}, {7, false}, {64, true}};
  Target target = Vectors(4);
  target.vector_registers = 32;
  EXPECT_THAT(Seeds(kernel, target), testing::Contains(Opts{{OptKind::kThread, 0, 4},
                                                            {OptKind::kVector, 0, 8},
                                                            {OptKind::kUpcast, 1, 4},
                                                            {OptKind::kUpcast, 2, 0}}));
}

TEST(SeedsTest, LeaveOutWhatAnAxisDoesNotAllow) {
  SearchSpace kernel;
  kernel.axes = {{3, false}, {0, false}, {5, false}};  // the second one is symbolic
  for (const Opts& seed : Seeds(kernel, Vectors(4))) {
    const Opt *const vector = MaybeOpt(seed, OptKind::kVector), *const upcast = MaybeOpt(
                                                                    seed, OptKind::kUpcast);
    ASSERT_NE(vector, nullptr);
    EXPECT_EQ(vector->axis, 1);
    if (upcast != nullptr) {
      EXPECT_NE(upcast->axis, 1);
      if (std::ranges::count(seed, OptKind::kUpcast, &Opt::kind) > 1) {  // a tile
        EXPECT_EQ(*upcast, (Opt{OptKind::kUpcast, 0, 2}))
            << "12 registers hold two columns of five";
        EXPECT_EQ(seed.back(), (Opt{OptKind::kUpcast, 2, 0}));
        continue;
      }
      EXPECT_EQ(upcast->amount, 0) << "a short axis is taken whole";
    }
  }
  EXPECT_EQ(MaybeOpt(Seeds(Product(), Vectors(1)).front(), OptKind::kThread), nullptr);
  EXPECT_TRUE(Seeds(SearchSpace(), Vectors(4)).empty());
}

TEST(SeedsTest, TargetsWithBlocksHaveNone) {
  Target target = Vectors(4);
  target.blocks = true;
  EXPECT_TRUE(Seeds(Product(), target).empty());
}

}  // namespace
}  // namespace uopd::search
