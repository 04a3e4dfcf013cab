// SPDX-License-Identifier: MIT
#include "server/engine/kept/stable_slots.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

using Stable = std::vector<bool>;

TEST(StableSlots, CountsRunsWithTheSameContents) {
  StableSlots slots;
  const std::vector<Contents> contents = {{1, 10}, {2, 20}};
  slots.Note(contents);
  EXPECT_EQ(slots.For(1), (Stable{true, true}));
  EXPECT_EQ(slots.For(2), (Stable{false, false}));
  slots.Note(contents);
  EXPECT_EQ(slots.For(2), (Stable{true, true}));
}

TEST(StableSlots, OtherContentsAndOtherBuffersStartAgain) {
  StableSlots slots;
  for (int i = 0; i < 3; ++i) slots.Note(std::vector<Contents>{{1, 10}, {2, 20}, {3, 30}});
  slots.Note(std::vector<Contents>{{1, 10}, {2, 21}, {4, 30}});
  EXPECT_EQ(slots.For(2), (Stable{true, false, false}));
  slots.Note(std::vector<Contents>{{1, 10}, {2, 21}, {4, 30}});
  EXPECT_EQ(slots.For(2), (Stable{true, true, true}));
  EXPECT_EQ(slots.For(5), (Stable{true, false, false}));
}

TEST(StableSlots, ContentsThatNobodyKnowsAreNeverTheSame) {
  StableSlots slots;
  for (int i = 0; i < 5; ++i) slots.Note(std::vector<Contents>{{0, 0}});
  EXPECT_EQ(slots.For(1), (Stable{false}));
}

}  // namespace
}  // namespace uopd::engine
