// SPDX-License-Identifier: MIT
#include "cache/base/row/key.h"

#include <gtest/gtest.h>

#include "cache/base/row/eviction.h"
#include "cache/base/row/row.h"

namespace uopd::cache {
namespace {

TEST(KeyTest, AddressIsShaOfLengthPrefixedParts) {
  using std::string_literals::operator""s;
  const std::string bytes = "\1\0\0\0\0\0\0\0s\2\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0\0"s;
  EXPECT_EQ(Key("s", "ab", "").address(), HashBytes(bytes));
}

TEST(KeyTest, PartsDoNotRunIntoEachOther) {
  EXPECT_NE(Key("a", "bc", "d").address(), Key("a", "b", "cd").address());
  EXPECT_NE(Key("ab", "c", "").address(), Key("a", "bc", "").address());
  EXPECT_NE(Key("a", "b", "").address(), Key("a", "", "b").address());
}

TEST(RowTest, ChecksumCoversEverythingButLastUse) {
  const Row row = MakeRow(Key("s", "sem", "env"), "value", 7, 100, 3);
  EXPECT_EQ(row.checksum.size(), 16u);
  auto changed = [&](auto change) {
    Row other = row;
    change(other);
    return Checksum(other) != row.checksum;
  };
  EXPECT_TRUE(changed([](Row& r) { r.store = "t"; }));
  EXPECT_TRUE(changed([](Row& r) { r.semantic[0] ^= 1; }));
  EXPECT_TRUE(changed([](Row& r) { r.environment.clear(); }));
  EXPECT_TRUE(changed([](Row& r) { r.value[4] ^= 1; }));
  EXPECT_TRUE(changed([](Row& r) { r.cost_us++; }));
  EXPECT_TRUE(changed([](Row& r) { r.created_us++; }));
  EXPECT_TRUE(changed([](Row& r) { r.fence++; }));
  EXPECT_FALSE(changed([](Row& r) { r.last_used_us++; }));
}

TEST(EvictionTest, DearAndSmallOutlivesCheapAndLarge) {
  const int64_t cheap = KeepScore(0, 1000, 4096), dear = KeepScore(0, 1000000, 4096);
  EXPECT_GT(dear, cheap);
  EXPECT_NEAR(static_cast<double>(dear - cheap), 10.0 * kHourUs, 0.1 * kHourUs);
  EXPECT_GT(KeepScore(0, 1000, 1024), KeepScore(0, 1000, 1 << 20));
  EXPECT_GT(KeepScore(11 * kHourUs, 1000, 4096), dear);
  EXPECT_EQ(KeepScore(5, -1, 0), 5);
}

}  // namespace
}  // namespace uopd::cache
