// SPDX-License-Identifier: MIT
#include "server/engine/compile/kernel/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using schedule::BufferRef;
using schedule::Item;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A schedule over slots of 64, 32 and 16 bytes.
schedule::Schedule Slots() {
  schedule::Schedule out;
  for (int64_t bytes : {64, 32, 16}) {
    out.slots.push_back({.dtype = ir::Dtype::F32, .dims = {bytes / 4}, .bytes = bytes});
  }
  out.temporaries.push_back({"NULL", 8, 0});
  return out;
}

Item KernelItem(std::string graph, std::string device, std::vector<BufferRef> buffers) {
  return {Item::kKernel, std::move(device), std::move(graph), std::move(buffers)};
}

class KernelSetTest : public testing::Test {
 protected:
  DeviceSet devices_{NullRegistry()};
};

TEST_F(KernelSetTest, AKernelIsThereOnceWithTheItemsThatRunIt) {
  schedule::Schedule schedule = Slots();
  schedule.items = {KernelItem("a", "NULL:0", {Slot(0), Slot(1)}),
                    KernelItem("b", "NULL:0", {Slot(0)}),
                    {Item::kCopy, "NULL:1", "", {Slot(0), Slot(1)}},
                    KernelItem("a", "NULL", {Slot(2), Slot(0)}),
                    KernelItem("a", "NULL:1", {Slot(0), Slot(1)})};
  const auto set = *KernelSet::Of(std::move(schedule), {.noopt = true}, devices_);
  ASSERT_THAT(set->kernels, SizeIs(3));
  // "NULL" and "NULL:0" are one device.
  EXPECT_THAT(set->kernels[0].items, ElementsAre(0, 3));
  EXPECT_THAT(set->kernels[1].items, ElementsAre(1));
  EXPECT_THAT(set->kernels[2].items, ElementsAre(4));
  EXPECT_EQ(set->kernels[2].device->name(), "NULL:1");
  for (const ScheduledKernel& kernel : set->kernels) EXPECT_EQ(kernel.kernel, nullptr);
  EXPECT_TRUE(set->options.noopt);
}

// A kernel that fits the smallest buffers fits them all.
TEST_F(KernelSetTest, CapacitiesAreTheLeastOverAllItems) {
  schedule::Schedule schedule = Slots();
  schedule.items = {KernelItem("a", "", {Slot(0), Slot(2)}),
                    KernelItem("a", "", {Slot(1), Slot(0)}),
                    KernelItem("a", "", {Slot(0), {BufferRef::kTemporary, 0}})};
  const auto set = *KernelSet::Of(std::move(schedule), {}, devices_);
  ASSERT_THAT(set->kernels, SizeIs(1));
  EXPECT_THAT(set->kernels[0].capacities, ElementsAre(32, 8));
}

TEST_F(KernelSetTest, TheRequestBorrowsFromTheSet) {
  schedule::Schedule schedule = Slots();
  schedule.items = {KernelItem("a", "NULL:1", {Slot(1)})};
  const auto set = *KernelSet::Of(std::move(schedule), {.fast_math = true}, devices_);
  const KernelRequest request = set->RequestOf(0);
  EXPECT_EQ(request.graph.data(), set->schedule.items[0].graph.data());
  EXPECT_EQ(request.device->name(), "NULL:1");
  EXPECT_EQ(&request.options, &set->options);
  EXPECT_EQ(request.opts, nullptr);
  EXPECT_EQ(&request.capacities, &set->kernels[0].capacities);
}

TEST_F(KernelSetTest, AnEmptyScheduleHasNone) {
  EXPECT_THAT((*KernelSet::Of({}, {}, devices_))->kernels, IsEmpty());
}

TEST_F(KernelSetTest, ADeviceThatIsNotThereIsAnErrorForCopiesToo) {
  schedule::Schedule schedule = Slots();
  schedule.items = {{Item::kCopy, "NULL:7", "", {Slot(0), Slot(0)}}};
  EXPECT_FALSE(KernelSet::Of(schedule, {}, devices_).ok());
  schedule.items = {KernelItem("a", "nonsense", {Slot(0)})};
  EXPECT_TRUE(absl::IsInvalidArgument(KernelSet::Of(schedule, {}, devices_).status()));
}

class KernelsTest : public testing::Test {
 protected:
  // Tunes nothing, so that only what the store has is found.
  class Tuner final : public KernelTuner {
   public:
    std::string Environment(const devices::Device&, const CompileOptions&) const override {
      return "tuner";
    }
    absl::StatusOr<TuningRecord> Tune(std::string_view, const devices::Device&,
                                      const CompileOptions&, const SearchControl&) override {
      return absl::InternalError("not asked for");
    }
    absl::StatusOr<TuningRecord> Prove(std::string_view, const devices::Device&,
                                       const CompileOptions&, const Opts&,
                                       const WorkLimits&) override {
      return absl::InternalError("not asked for");
    }
  };

  static schedule::Schedule ScheduleOf(const std::string& graph) {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, graph, ir::Level::kTensor);
    return *schedule::MakeSchedule(ctx, *sink, {.default_device = "NULL:0"});
  }
  absl::StatusOr<std::shared_ptr<KernelSet>> Get(schedule::Schedule schedule,
                                                 const CompileOptions& options = {}) {
    request_ = {};
    return kernels_.Get(request_, std::move(schedule), options);
  }
  void TunedWith(const Opts& opts) {
    const schedule::Schedule schedule = ScheduleOf(graph_);
    ASSERT_TRUE(
        store_.Put({"tuning", schedule.items.at(0).graph, "tuner"}, TuningRecord{opts}.Encode(), 1)
            .ok());
  }

  const std::string graph_ = ScaleGraph(4, 2);
  FakeCompiler graph_compiler_;
  KernelCompiler compiler_{nullptr, std::chrono::seconds(10)};
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry()};
  TaskPool task_pool_{2, SIZE_MAX};
  KernelLoader loader_{graph_compiler_, compiler_, store_, {.owner = "test"}};
  Tuner tuner_;
  TuningService tuning_{{.owner = "test"}, store_, &tuner_};
  Kernels kernels_{loader_, tuning_, devices_, task_pool_};
  RequestContext request_;
};

TEST_F(KernelsTest, SaysWhereTheKernelsCameFrom) {
  const auto made = Get(ScheduleOf(graph_));
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_NE((*made)->kernels.at(0).kernel, nullptr);
  EXPECT_EQ(request_.cache.kernels_compiled, 1u);
  EXPECT_GT(request_.timings[Phase::kCompile], 0);
  ASSERT_TRUE(Get(ScheduleOf(graph_)).ok());
  EXPECT_EQ(request_.cache.kernels_memory, 1u);
  EXPECT_EQ(request_.cache.kernels_compiled, 0u);
  KernelLoader restarted(graph_compiler_, compiler_, store_, {.owner = "test"});
  request_ = {};
  ASSERT_TRUE(
      Kernels(restarted, tuning_, devices_, task_pool_).Get(request_, ScheduleOf(graph_), {}).ok());
  EXPECT_EQ(request_.cache.kernels_disk, 1u);
  EXPECT_EQ(graph_compiler_.builds, 1);
}

// It was neither on the disk nor in memory when the second request asked, and the second request
// does not build it.
TEST_F(KernelsTest, AKernelThatAnotherRequestBuildsIsShared) {
  std::latch building(1), waiting(1);
  graph_compiler_.on_build = [&] {
    building.count_down();
    waiting.wait();
    return absl::OkStatus();
  };
  RequestContext first, second;
  std::jthread thread([&] { EXPECT_TRUE(kernels_.Get(first, ScheduleOf(graph_), {}).ok()); });
  building.wait();
  std::atomic<bool> asked{false};
  second.cancelled = [&] {  // asked as soon as the request waits for the other one
    if (!asked.exchange(true)) waiting.count_down();
    return false;
  };
  EXPECT_TRUE(kernels_.Get(second, ScheduleOf(graph_), {}).ok());
  thread.join();
  EXPECT_EQ(first.cache.kernels_compiled, 1u);
  EXPECT_EQ(first.cache.kernels_shared, 0u);
  EXPECT_EQ(second.cache.kernels_shared, 1u);
  EXPECT_EQ(second.cache.kernels_compiled + second.cache.kernels_disk + second.cache.kernels_memory,
            0u);
  EXPECT_EQ(graph_compiler_.builds, 1);
}

TEST_F(KernelsTest, OneKernelThatFailsFailsTheSet) {
  schedule::Schedule schedule = ScheduleOf(graph_);
  schedule::Item bad = schedule.items.at(0);
  bad.graph = "noise";
  schedule.items.push_back(bad);
  EXPECT_FALSE(Get(std::move(schedule)).ok());
  EXPECT_EQ(request_.cache.kernels_compiled, 1u);  // of the one that did not fail
}

TEST_F(KernelsTest, WhatTuningFoundIsUsedWithABeam) {
  TunedWith({{codegen::OptKind::kUpcast, 0, 4}});
  EXPECT_TRUE((*Get(ScheduleOf(graph_), {.beam = 2}))->kernels.at(0).kernel->tuned);
  EXPECT_FALSE((*Get(ScheduleOf(graph_)))->kernels.at(0).kernel->tuned);
  EXPECT_FALSE((*Get(ScheduleOf(graph_), {.beam = 2, .ignore_beam_cache = true}))
                   ->kernels.at(0)
                   .kernel->tuned);
}

TEST_F(KernelsTest, OptsThatDoNotApplyAreAsIfNothingHadBeenFound) {
  TunedWith(FakeCompiler::kUselessOpts);
  const auto got = Get(ScheduleOf(graph_), {.beam = 2});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_FALSE((*got)->kernels.at(0).kernel->tuned);
}

TEST_F(KernelsTest, RequestsGetDraftsAndTheBackgroundDoesNot) {
  Kernels kernels(loader_, tuning_, devices_, task_pool_, /*drafts=*/true);
  const auto draft = kernels.Get(request_, ScheduleOf(graph_), {});
  ASSERT_TRUE(draft.ok()) << draft.status();
  EXPECT_TRUE((*draft)->kernels.at(0).kernel->draft);
  EXPECT_EQ(request_.cache.kernels_compiled, 1u);
  request_ = {};
  request_.background = true;
  const auto optimised = kernels.Get(request_, ScheduleOf(graph_), {});
  EXPECT_FALSE((*optimised)->kernels.at(0).kernel->draft);
}

TEST_F(KernelsTest, WhatTuningFoundIsNoDraft) {
  TunedWith({{codegen::OptKind::kUpcast, 0, 4}});
  Kernels kernels(loader_, tuning_, devices_, task_pool_, /*drafts=*/true);
  const auto got = kernels.Get(request_, ScheduleOf(graph_), {.beam = 2});
  EXPECT_TRUE((*got)->kernels.at(0).kernel->tuned);
  EXPECT_FALSE((*got)->kernels.at(0).kernel->draft);
}

}  // namespace
}  // namespace uopd::engine
