// SPDX-License-Identifier: MIT
#include "server/engine/compile/program_table.h"

#include <gtest/gtest.h>

#include "core/base/digest.h"

namespace uopd::engine {
namespace {

TEST(ProgramTableTest, TheLeastRecentlyUsedGoes) {
  ProgramTable table(2);
  const ProgramKey a{HashBytes("a"), {}}, b{HashBytes("b"), {}}, c{HashBytes("c"), {}};
  const auto handle = std::make_shared<ProgramHandle>(nullptr);
  EXPECT_EQ(table.Insert(a, handle), handle);
  EXPECT_EQ(table.Insert(a, std::make_shared<ProgramHandle>(nullptr)), handle);
  table.Insert(b, std::make_shared<ProgramHandle>(nullptr));
  EXPECT_NE(table.Find(a), nullptr);
  table.Insert(c, std::make_shared<ProgramHandle>(nullptr));
  EXPECT_EQ(table.Find(b), nullptr);
  EXPECT_EQ(table.Find(a), handle);
  EXPECT_EQ(table.size(), 2u);
}

}  // namespace
}  // namespace uopd::engine
