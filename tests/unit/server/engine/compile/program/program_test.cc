// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/engine/compile/kernel/kernels.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using schedule::BufferRef;
using schedule::Item;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

BufferRef Temporary(int64_t i) { return {BufferRef::kTemporary, i}; }

// out = kernel(in) on NULL:0 over a temporary of 32 bytes, then a copy to a slot on NULL:1.
class AssembleTest : public testing::Test {
 protected:
  AssembleTest() {
    schedule::Schedule& schedule = set_.schedule;
    schedule.slots = {
        {.dtype = ir::Dtype::F32, .dims = {8}, .bytes = 32, .used = true, .device = "NULL:1"},
        {.dtype = ir::Dtype::F32, .dims = {16}, .bytes = 64, .used = true, .device = "NULL:0"}};
    schedule.variables = {{"m", 1, 4}, {"n", 0, 9}};
    schedule.temporaries = {{"NULL", 32, 16}};
    schedule.arenas = {{"NULL", 48}};
    schedule.items = {{Item::kKernel, "NULL:0", "graph", {Temporary(0), Slot(1)}},
                      {Item::kCopy, "NULL:1", "", {Slot(0), Temporary(0)}}};
    kernel_.device = *devices_.Get("");
    kernel_.name = "k";
    kernel_.buffers = {{ir::Dtype::F32, 8, false, true}, {ir::Dtype::F32, 16, true, false}};
    kernel_.variables = {"n", "m"};
    kernel_.flops = 100;
    kernel_.bytes = 96;
    kernel_.estimate_ns = 1000;
  }
  absl::StatusOr<std::shared_ptr<const Program>> Assemble() {
    set_.kernels = {{.graph = "graph",
                     .device = kernel_.device,
                     .items = {0},
                     .kernel = std::make_shared<Kernel>(kernel_)}};
    return AssembleProgram(HashBytes("graph"), set_, devices_);
  }
  // That the daemon is to blame, and what for.
  void ExpectBug(std::string_view what) {
    const absl::Status status = Assemble().status();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
    EXPECT_THAT(StatusText(status), HasSubstr(std::string(what)));
  }

  DeviceSet devices_{NullRegistry()};
  Kernel kernel_;
  KernelSet set_;
};

TEST_F(AssembleTest, StepsAreTheItemsInOrder) {
  const auto got = Assemble();
  ASSERT_TRUE(got.ok()) << got.status();
  const Program& program = **got;
  EXPECT_EQ(program.digest, HashBytes("graph"));
  ASSERT_THAT(program.steps, SizeIs(2));
  EXPECT_EQ(program.steps[0].kernel->name, "k");
  EXPECT_EQ(program.steps[0].device->name(), "NULL:0");
  EXPECT_THAT(program.steps[0].buffers, ElementsAre(Temporary(0), Slot(1)));
  EXPECT_THAT(program.steps[0].variables, ElementsAre(1, 0));  // n, m
  EXPECT_EQ(program.steps[1].kernel, nullptr);
  EXPECT_EQ(program.steps[1].device->name(), "NULL:1");
  EXPECT_EQ(program.flops, 100);
  EXPECT_EQ(program.bytes, 96 + 2 * 32);  // the copy reads and writes
}

TEST_F(AssembleTest, MemoryAndDevicesAreResolved) {
  const auto got = Assemble();
  ASSERT_TRUE(got.ok()) << got.status();
  const Program& program = **got;
  ASSERT_THAT(program.slots, SizeIs(2));
  EXPECT_EQ(program.slots[0].device->name(), "NULL:1");
  ASSERT_THAT(program.arenas, SizeIs(1));
  EXPECT_EQ(program.arenas[0].device->name(), "NULL:0");
  EXPECT_EQ(program.temporary_bytes, 48);
  ASSERT_THAT(program.temporaries, SizeIs(1));
  EXPECT_EQ(program.temporaries[0].arena, 0);
  EXPECT_EQ(program.temporaries[0].offset, 16);
  EXPECT_THAT(program.devices, SizeIs(2));
}

TEST_F(AssembleTest, ADeviceOfASlotThatIsNotUsedIsNotTheProgramsDevice) {
  set_.schedule.slots[0].used = false;
  set_.schedule.items.pop_back();  // the copy to it
  const auto got = Assemble();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)->devices, ElementsAre(*devices_.Get("NULL:0")));
}

TEST_F(AssembleTest, AnEmptyScheduleIsAProgramWithoutSteps) {
  set_.schedule = {};
  const auto got = AssembleProgram({}, set_, devices_);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)->steps, SizeIs(0));
  EXPECT_TRUE((*got)->quick);
  EXPECT_FALSE((*got)->may_be_long);
}

// What would read or write outside of a buffer is our bug, and never launched.
TEST_F(AssembleTest, KernelsThatDoNotFitTheirBuffersAreBugs) {
  kernel_.buffers[1].elements = 17;
  ExpectBug("kernel k uses 17 elements of buffer 1, which has 64 bytes");
  kernel_.buffers[1].elements = -1;
  ExpectBug("kernel k uses -1 elements");
  kernel_.buffers.pop_back();
  ExpectBug("kernel k has 1 buffers and is scheduled with 2");
}

TEST_F(AssembleTest, AVariableThatTheGraphDoesNotHaveIsABug) {
  kernel_.variables = {"n", "q"};
  ExpectBug("variable (q)");
}

TEST_F(AssembleTest, TemporariesOutsideTheirArenaAreBugs) {
  schedule::Temporary& temporary = set_.schedule.temporaries[0];
  temporary.offset = 17;
  ExpectBug("temporary at 17 lies outside its arena on NULL");
  temporary.offset = -1;
  ExpectBug("outside its arena");
  temporary.offset = INT64_MAX;
  ExpectBug("outside its arena");
  temporary = {"NULL:0", 32, 0};  // the arena has the other name of the device
  ExpectBug("outside its arena on NULL:0");
}

TEST_F(AssembleTest, CopiesThatDoNotFitAreBugs) {
  Item& copy = set_.schedule.items[1];
  copy.from = 1;
  ExpectBug("copy is not between two buffers, or its source is too small");
  copy.from = -1;
  ExpectBug("copy is not between");
  copy.from = 0;
  copy.buffers.pop_back();
  ExpectBug("copy is not between");
}

TEST_F(AssembleTest, ADeviceThatIsNotConfiguredIsNoBug) {
  set_.schedule.slots[0].device = "NULL:7";
  const absl::Status status = Assemble().status();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(absl::IsInternal(status)) << status;
}

TEST_F(AssembleTest, LittleWorkIsQuick) {
  EXPECT_TRUE((*Assemble())->quick);
  kernel_.flops = 1e6;
  EXPECT_FALSE((*Assemble())->quick);
  kernel_.flops = 0, kernel_.bytes = 1 << 20;
  EXPECT_FALSE((*Assemble())->quick);
  kernel_.bytes = 0;
  set_.schedule.items.insert(set_.schedule.items.end(), 15, set_.schedule.items[1]);
  EXPECT_FALSE((*Assemble())->quick);
}

TEST_F(AssembleTest, AnEstimateOrAPollSaysThatItMayBeLong) {
  EXPECT_FALSE((*Assemble())->may_be_long);
  kernel_.polls = true;
  EXPECT_TRUE((*Assemble())->may_be_long);
  kernel_.polls = false;
  kernel_.estimate_ns = 2.0 * kLongRunNs;
  EXPECT_TRUE((*Assemble())->may_be_long);
  EXPECT_FALSE((*Assemble())->quick);
  kernel_.estimate_ns = 0, kernel_.bytes = 1e9;
  EXPECT_TRUE((*Assemble())->may_be_long);
}

TEST_F(AssembleTest, CountsTheStepsWhoseKernelsAreTuned) {
  EXPECT_EQ((*Assemble())->tuned_kernels, 0u);
  kernel_.tuned = true;
  EXPECT_EQ((*Assemble())->tuned_kernels, 1u);
}

TEST(RunTimeTest, KeepsTheQuickestUntilALongRunMakesItForget) {
  const RunTime time;
  EXPECT_EQ(time.Quickest(), INT64_MAX);
  time.Add(300);
  time.Add(200);
  time.Add(400);
  EXPECT_EQ(time.Quickest(), 200);
  time.Add(5 * kLongRunNs);
  EXPECT_EQ(time.Quickest(), 200);
  time.Add(5 * kLongRunNs + 1);
  EXPECT_EQ(time.Quickest(), INT64_MAX);
  time.Add(400);
  EXPECT_EQ(time.Quickest(), 400);
}

TEST(RunTimeTest, ACopyHasNotRun) {
  Program program;
  program.run_time.Add(5);
  const Program copy = program;
  EXPECT_EQ(copy.run_time.Quickest(), INT64_MAX);
}

TEST(ProgramTest, WhatItTookSaysMoreThanTheEstimate) {
  Program program;
  EXPECT_FALSE(program.IsLong());
  program.may_be_long = true;
  EXPECT_TRUE(program.IsLong());
  program.run_time.Add(kLongRunNs);
  EXPECT_FALSE(program.IsLong());
  program.variables.push_back({"n", 0, 9});  // the next run may have more work
  EXPECT_TRUE(program.IsLong());
}

TEST(ProgramHandleTest, WhoHasTheOldProgramKeepsIt) {
  const auto before = std::make_shared<Program>(), after = std::make_shared<Program>();
  ProgramHandle handle(before);
  const auto held = handle.Get();
  handle.Swap(after);
  EXPECT_EQ(handle.Get(), after);
  EXPECT_EQ(held, before);
}

TEST(ProgramKeyTest, EveryOptionMakesAnotherProgram) {
  const ProgramKey key{HashBytes("a"), {}};
  const CompileOptions others[] = {{.noopt = true},
                                   {.fast_math = true},
                                   {.beam = 1},
                                   {.ignore_beam_cache = true},
                                   {.cache_level = 1}};
  for (const CompileOptions& options : others) {
    const ProgramKey other{key.digest, options};
    EXPECT_FALSE(other == key) << options.Text();
    EXPECT_NE(absl::HashOf(other), absl::HashOf(key)) << options.Text();
  }
  EXPECT_FALSE((ProgramKey{HashBytes("b"), {}} == key));
}

}  // namespace
}  // namespace uopd::engine
