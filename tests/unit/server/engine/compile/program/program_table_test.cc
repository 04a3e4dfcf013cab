// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_table.h"

#include <gtest/gtest.h>

#include "core/base/digest.h"
#include "tests/unit/server/engine/fixture.h"

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

TEST(ProgramTableTest, TheProgramsOfALostDeviceGo) {
  DeviceSet devices(NullRegistry());
  const auto program_on = [&](const char* name) {
    auto program = std::make_shared<Program>();
    program->devices = {*devices.Get(name)};
    return std::make_shared<ProgramHandle>(program);
  };
  ProgramTable table(9);
  const ProgramKey a{HashBytes("a"), {}}, b{HashBytes("b"), {}}, c{HashBytes("c"), {}};
  table.Insert(a, program_on("NULL:0"));
  table.Insert(b, program_on("NULL:1"));
  table.Insert(c, program_on("NULL:0"));
  table.RemoveOf(**devices.Get("NULL:0"));
  EXPECT_EQ(table.Find(a), nullptr);
  EXPECT_NE(table.Find(b), nullptr);
  EXPECT_EQ(table.Find(c), nullptr);
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace uopd::engine
