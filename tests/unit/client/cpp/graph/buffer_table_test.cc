// SPDX-License-Identifier: MIT
#include "client/cpp/graph/buffer_table.h"

#include <gtest/gtest.h>

namespace uopd::client {
namespace {

ClientBuffer Of(uint64_t handle) {
  ClientBuffer out;
  out.handle = handle;
  return out;
}

TEST(BufferTableTest, ANumberIsForBuffersOfOneKind) {
  BufferTable table;
  const uint64_t a = table.Add(Of(1), {2, 3}), b = table.Add(Of(2), {3, 2});
  EXPECT_NE(a, b);
  table.Remove(a);
  EXPECT_FALSE(table.Has(a));
  EXPECT_TRUE(table.Has(b));
  const uint64_t other = table.Add(Of(3), {6});
  EXPECT_NE(other, a);
  EXPECT_EQ(table.Add(Of(4), {2, 3}), a);
  EXPECT_EQ(table.at(a).handle, 4u);
  EXPECT_EQ(table.at(b).handle, 2u);
  EXPECT_EQ(table.size(), 3u);
}

TEST(BufferTableTest, NothingOfABufferThatIsGoneIsLeft) {
  BufferTable table;
  ClientBuffer zeros = Of(1);
  zeros.zeros = zeros.on_daemon = true;
  const uint64_t n = table.Add(zeros, {4});
  table.Remove(n);
  ASSERT_EQ(table.Add(Of(2), {4}), n);
  EXPECT_FALSE(table.at(n).zeros);
  EXPECT_FALSE(table.at(n).on_daemon);
}

TEST(BufferTableTest, MemoryIsBoundedWhenEveryShapeIsNew) {
  BufferTable table;
  for (int i = 1; i <= 100'000; ++i) table.Remove(table.Add(Of(1), {i}));
  EXPECT_LT(table.end(), 1000u);
  EXPECT_EQ(table.size(), 0u);
}

TEST(NumberSetTest, HasWhatWasInserted) {
  NumberSet set;
  EXPECT_FALSE(set.Contains(7));
  set.Insert(7);
  EXPECT_TRUE(set.Contains(7));
  EXPECT_FALSE(set.Contains(6));
  EXPECT_FALSE(set.Contains(100));
}

}  // namespace
}  // namespace uopd::client
