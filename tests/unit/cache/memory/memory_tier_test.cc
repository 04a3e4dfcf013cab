// SPDX-License-Identifier: MIT
#include "cache/memory/memory_tier.h"

#include <gtest/gtest.h>

namespace uopd::cache {
namespace {

std::shared_ptr<const Row> RowFor(const Key& key, size_t size, int64_t cost, int64_t now) {
  return std::make_shared<const Row>(MakeRow(key, std::string(size, 'x'), cost, now, 0));
}

TEST(MemoryTableTest, EvictsByUseAndCost) {
  MemoryTable table(4 * 1300);
  auto key = [](int i) { return Key("s", std::to_string(i), ""); };
  const int64_t costs[] = {10, 10, 1'000'000};
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(table.Insert(key(i).address(), RowFor(key(i), 1000, costs[i], i)).ok());
  ASSERT_NE(table.Find(key(0).address(), 1000), nullptr);  // used after 1
  auto evicted = table.Insert(key(3).address(), RowFor(key(3), 2000, 10, 2000));
  ASSERT_TRUE(evicted.ok());
  EXPECT_EQ(*evicted, std::vector<std::string>{"s"});
  EXPECT_FALSE(table.Contains(key(1).address()));
  EXPECT_TRUE(table.Contains(key(0).address()));
  EXPECT_TRUE(table.Contains(key(2).address()));
  EXPECT_EQ(table.ReadUsage().at(0).rows, 3);
  EXPECT_TRUE(absl::IsResourceExhausted(
      table.Insert(key(4).address(), RowFor(key(4), 3000, 1, 1)).status()));
  EXPECT_EQ(table.List("s", 2).size(), 2u);
  table.Clear("t");
  EXPECT_EQ(table.ReadUsage().size(), 1u);
  table.Clear("s");
  EXPECT_TRUE(table.ReadUsage().empty());
}

}  // namespace
}  // namespace uopd::cache
