// SPDX-License-Identifier: MIT
#include "core/search/seeds.h"

#include <algorithm>
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
KernelInfo Product() {
  KernelInfo out;
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
    pairs.emplace(vector->axis, upcast != nullptr ? upcast->axis : -1);
    if (upcast != nullptr) {
      EXPECT_EQ(upcast->amount, upcast->axis == 0 ? 8 : 6) << "60 is no multiple of 8 or 7";
    }
  }
  EXPECT_THAT(pairs, testing::UnorderedElementsAre(
                         std::pair(0, -1), std::pair(1, -1), std::pair(2, -1), std::pair(0, 1),
                         std::pair(1, 0), std::pair(2, 0), std::pair(2, 1)));
}

TEST(SeedsTest, LeaveOutWhatAnAxisDoesNotAllow) {
  KernelInfo kernel;
  kernel.axes = {{3, false}, {0, false}, {5, false}};  // the second one is symbolic
  for (const Opts& seed : Seeds(kernel, Vectors(4))) {
    const Opt *const vector = MaybeOpt(seed, OptKind::kVector), *const upcast = MaybeOpt(
                                                                    seed, OptKind::kUpcast);
    ASSERT_NE(vector, nullptr);
    EXPECT_EQ(vector->axis, 1);
    if (upcast != nullptr) {
      EXPECT_NE(upcast->axis, 1);
      EXPECT_EQ(upcast->amount, 0) << "a short axis is taken whole";
    }
  }
  EXPECT_EQ(MaybeOpt(Seeds(Product(), Vectors(1)).front(), OptKind::kThread), nullptr);
  EXPECT_TRUE(Seeds(KernelInfo(), Vectors(4)).empty());
}

TEST(SeedsTest, TargetsWithBlocksHaveNone) {
  Target target = Vectors(4);
  target.blocks = true;
  EXPECT_TRUE(Seeds(Product(), target).empty());
}

}  // namespace
}  // namespace uopd::search
