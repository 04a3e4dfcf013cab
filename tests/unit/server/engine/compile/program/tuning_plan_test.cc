// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/tuning_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::SizeIs;

const TuningRecord kFound{.opts = {{codegen::OptKind::kUpcast, 0, 4}}};

class ProgramTuningTest : public testing::Test {
 protected:
  // A program and the kernels that it was assembled from.
  void Make(const CompileOptions& options) {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, ScaleGraph(4, 2), ir::Level::kTensor);
    schedule::Schedule schedule = *schedule::MakeSchedule(ctx, *sink, {.default_device = "NULL:0"});
    kernels_ = *KernelSet::Of(std::move(schedule), options, devices_);
    PhaseTimings timings;
    kernels_->kernels.at(0).kernel = loader_.Get({}, kernels_->RequestOf(0), &timings)->kernel;
    program_ =
        std::make_shared<ProgramHandle>(*AssembleProgram(HashBytes("graph"), *kernels_, devices_));
  }
  std::optional<TuningTask> Task() {
    return TuningTaskOf(program_, std::make_shared<ProgramUpdate>(program_, kernels_, devices_),
                        loader_);
  }

  FakeCompiler graph_compiler_;
  KernelCompiler compiler_{nullptr, std::chrono::seconds(10)};
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry()};
  KernelLoader loader_{graph_compiler_, compiler_, store_, {.owner = "test"}};
  std::shared_ptr<KernelSet> kernels_;
  std::shared_ptr<ProgramHandle> program_;
};

TEST_F(ProgramTuningTest, WithoutABeamThereIsNothingToTune) {
  Make({});
  EXPECT_FALSE(Task().has_value());
}

TEST_F(ProgramTuningTest, TheTaskNamesTheKernels) {
  Make({.beam = 3});
  const auto task = Task();
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->options.beam, 3);
  ASSERT_THAT(task->kernels, SizeIs(1));
  EXPECT_EQ(task->kernels[0].graph, kernels_->schedule.items.at(0).graph);
  EXPECT_EQ(task->kernels[0].device, &(*devices_.Get(""))->device());
  EXPECT_EQ(task->kernels[0].name, "fake");
  EXPECT_FALSE(task->kernels[0].done);
}

TEST_F(ProgramTuningTest, ABetterKernelIsSwappedIn) {
  Make({.beam = 2});
  const auto before = program_->Get();
  const auto task = Task();
  ASSERT_TRUE(task->use(0, kFound).ok());
  const auto after = program_->Get();
  EXPECT_NE(after, before);
  EXPECT_EQ(after->digest, before->digest);
  EXPECT_EQ(after->tuned_kernels, 1u);
  EXPECT_EQ(before->tuned_kernels, 0u);
  EXPECT_TRUE(after->steps.at(0).kernel->tuned);
  // From now on nothing is left.
  EXPECT_FALSE(Task().has_value());
}

TEST_F(ProgramTuningTest, KernelsThatAreTunedAlreadyAreDone) {
  Make({.beam = 2});
  auto tuned = std::make_shared<Kernel>(*kernels_->kernels[0].kernel);
  tuned->tuned = true;
  kernels_->kernels.push_back(kernels_->kernels[0]);
  kernels_->kernels[1].items.clear();
  kernels_->kernels[1].kernel = tuned;
  const auto task = Task();
  ASSERT_THAT(task->kernels, SizeIs(2));
  EXPECT_FALSE(task->kernels[0].done);
  EXPECT_TRUE(task->kernels[1].done);
}

TEST_F(ProgramTuningTest, AFailureLeavesTheProgramAsItIs) {
  Make({.beam = 2});
  const auto before = program_->Get();
  EXPECT_TRUE(
      absl::IsInvalidArgument(Task()->use(0, TuningRecord{.opts = FakeCompiler::kUselessOpts})));
  EXPECT_EQ(program_->Get(), before);
}

TEST_F(ProgramTuningTest, TheTaskDoesNotKeepTheProgram) {
  Make({.beam = 2});
  const auto task = Task();
  const int builds = graph_compiler_.builds;
  program_.reset();
  EXPECT_TRUE(task->program.expired());
  EXPECT_TRUE(task->use(0, kFound).ok());
  EXPECT_EQ(graph_compiler_.builds, builds) << "a kernel for nobody";
}

}  // namespace
}  // namespace uopd::engine
