// SPDX-License-Identifier: MIT
#include "server/engine/session/cancelled_ids.h"

#include <gtest/gtest.h>

namespace uopd::engine {
namespace {

TEST(CancelledIdsTest, TheLatestAreKnown) {
  CancelledIds ids;
  EXPECT_FALSE(ids.Has(1));
  for (uint64_t id = 1; id <= CancelledIds::kMaxIds; ++id) ids.Add(id);
  ids.Add(2);  // known already: it takes no place
  EXPECT_TRUE(ids.Has(1));
  ids.Add(9999);
  EXPECT_FALSE(ids.Has(1));
  EXPECT_TRUE(ids.Has(2));
  EXPECT_TRUE(ids.Has(9999));
}

}  // namespace
}  // namespace uopd::engine
