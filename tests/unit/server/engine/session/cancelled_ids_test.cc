// SPDX-License-Identifier: MIT
#include "server/engine/session/cancelled_ids.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

// A cancellation that counts in `told` how often it is told.
std::shared_ptr<Cancellation> Watched(int& told) {
  auto out = std::make_shared<Cancellation>();
  out->Watch([&told] { ++told; });
  return out;
}

TEST(CancelledIdsTest, TheLatestAreKnown) {
  CancelledIds ids;
  EXPECT_FALSE(ids.Has(1));
  for (uint64_t id = 1; id <= CancelledIds::kMaxIds; ++id) ids.Add(id);
  ids.Add(2);  // known already: it takes no place
  EXPECT_TRUE(ids.Has(1));
  ids.Add(99999);
  EXPECT_FALSE(ids.Has(1));
  EXPECT_TRUE(ids.Has(2));
  EXPECT_TRUE(ids.Has(99999));
}

TEST(CancelledIdsTest, WhatIsDoneCannotBeCancelledAnyMore) {
  CancelledIds ids;
  int told = 0;
  ids.Done(1);
  ids.Add(1);
  EXPECT_FALSE(ids.Has(1));
  ids.Watch(1, Watched(told));  // its repetition waits for its program
  ids.Add(1);
  EXPECT_EQ(told, 0);
  // It was cancelled too late.
  ids.Add(2);
  ids.Done(2);
  EXPECT_FALSE(ids.Has(2));
  ids.Watch(2, Watched(told));
  EXPECT_EQ(told, 0);
  // Only the latest ones are known.
  for (uint64_t id = 3; id < 3 + CancelledIds::kMaxDone; ++id) ids.Done(id);
  ids.Add(1);
  EXPECT_TRUE(ids.Has(1));
  ids.Add(3);
  EXPECT_FALSE(ids.Has(3));
}

TEST(CancelledIdsTest, WatchersAreToldOnce) {
  CancelledIds ids;
  int told = 0;
  ids.Watch(1, Watched(told));
  ids.Add(2);
  EXPECT_EQ(told, 0);
  ids.Add(1);
  ids.Add(1);
  EXPECT_EQ(told, 1);
  ids.Watch(2, Watched(told));  // cancelled before
  EXPECT_EQ(told, 2);
  ids.Watch(3, Watched(told));
  ids.Unwatch(3);
  ids.Add(3);
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace uopd::engine
