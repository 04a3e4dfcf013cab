// SPDX-License-Identifier: MIT
#include "core/base/table_key.h"

#include <gtest/gtest.h>

#include <set>

namespace uopd {
namespace {

constexpr uint64_t kPairs = 20'000;

// Ids of nodes, or addresses, that are made side by side.
TEST(KeyedHash, PairsThatAreCountedUpTogetherDoNotMeet) {
  for (const uint64_t key : {uint64_t{0}, uint64_t{0x1234567890abcdef}, TableKey()}) {
    for (const uint64_t step : {1, 2, 3, 5, 48, 64}) {
      for (const uint64_t apart : {0, 1, 100, 4096}) {
        std::set<uint64_t> all, places;
        for (uint64_t i = 0; i < kPairs; ++i) {
          KeyedHash hash(key, step * i);
          hash.Add(step * i + apart);
          all.insert(hash.get());
          places.insert(hash.get() >> 7 & 0x7fff);  // of a table of 32,768
        }
        EXPECT_EQ(all.size(), kPairs) << step << " " << apart;
        // 20,000 balls thrown into 32,768 boxes leave 45.7 % of the boxes with one: 14,970.
        EXPECT_GT(places.size(), size_t{13'100}) << step << " " << apart;
      }
    }
  }
}

TEST(KeyedHash, TheOrderOfValuesMatters) {
  std::set<uint64_t> all;
  for (uint64_t a = 0; a < 100; ++a) {
    for (uint64_t b = 0; b < 100; ++b) {
      KeyedHash hash(7, a);
      hash.Add(b);
      all.insert(hash.get());
    }
  }
  EXPECT_EQ(all.size(), 10'000u);
}

}  // namespace
}  // namespace uopd
