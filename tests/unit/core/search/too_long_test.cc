// SPDX-License-Identifier: MIT
#include "core/search/too_long.h"

#include "gtest/gtest.h"

namespace uopd::search {
namespace {

using codegen::OptKind;

TEST(TooLongTest, CoversWhatUnrollsAsMuchOrMore) {
  TooLong known({{64, false}, {16, true}});
  const Opts added = {{OptKind::kThread, 0, 2}, {OptKind::kVector, 0, 8}, {OptKind::kUnroll, 1, 8}};
  EXPECT_FALSE(known.Covers(added));
  known.Add(added);
  EXPECT_TRUE(known.Covers(added));
  EXPECT_TRUE(known.Covers({{OptKind::kVector, 0, 8}, {OptKind::kUnroll, 1, 8}}));  // no threads
  EXPECT_TRUE(
      known.Covers({{OptKind::kVector, 0, 8}, {OptKind::kUnroll, 1, 0}}));  // the whole axis
  EXPECT_TRUE(
      known.Covers({{OptKind::kVector, 0, 8}, {OptKind::kUpcast, 0, 2}, {OptKind::kUnroll, 1, 8}}));
  EXPECT_FALSE(known.Covers({{OptKind::kVector, 0, 8}, {OptKind::kUnroll, 1, 4}}));
  EXPECT_FALSE(known.Covers({{OptKind::kVector, 0, 8}, {OptKind::kUpcast, 0, 8}}));
  EXPECT_FALSE(known.Covers({{OptKind::kVector, 0, 16}, {OptKind::kUnroll, 1, 8}}));
  EXPECT_FALSE(known.Covers(
      {{OptKind::kVector, 0, 8}, {OptKind::kTensorCore, 1, 1}, {OptKind::kUnroll, 1, 8}}));
}

TEST(TooLongTest, AShorterListReplacesALongerOne) {
  TooLong known({{64, false}});
  known.Add({{OptKind::kUpcast, 0, 8}});
  EXPECT_FALSE(known.Covers({{OptKind::kUpcast, 0, 4}}));
  known.Add({{OptKind::kUpcast, 0, 4}});
  EXPECT_TRUE(known.Covers({{OptKind::kUpcast, 0, 4}}));
  EXPECT_TRUE(known.Covers({{OptKind::kUpcast, 0, 8}}));
}

// The kernel itself, without an opt that makes it longer, was too long: nothing of its kind is
// tried.
TEST(TooLongTest, AKernelThatIsTooLongByItselfCoversAll) {
  TooLong known({{64, false}});
  known.Add({{OptKind::kThread, 0, 2}});
  EXPECT_TRUE(known.Covers({{OptKind::kUpcast, 0, 2}}));
  EXPECT_FALSE(known.Covers({{OptKind::kVector, 0, 8}}));
}

}  // namespace
}  // namespace uopd::search
