// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/draft_upgrades.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "core/base/telemetry/metrics.h"
#include "tests/support/eventually.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using test::Eventually;

class DraftUpgradesTest : public testing::Test {
 protected:
  struct Made {
    std::shared_ptr<ProgramHandle> program;
    std::shared_ptr<ProgramUpdate> update;
  };
  // A program of one kernel, which is a draft. Another factor makes another kernel.
  Made Make(double factor = 2) {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, ScaleGraph(4, factor), ir::Level::kTensor);
    schedule::Schedule schedule = *schedule::MakeSchedule(ctx, *sink, {.default_device = "NULL:0"});
    const auto kernels = *KernelSet::Of(std::move(schedule), {}, devices_);
    KernelRequest wanted = kernels->RequestOf(0);
    wanted.tier = Tier::kDraft;
    PhaseTimings timings;
    kernels->kernels.at(0).kernel = loader_.Get({}, wanted, &timings)->kernel;
    auto program =
        std::make_shared<ProgramHandle>(*AssembleProgram(HashBytes("graph"), *kernels, devices_));
    return {program, std::make_shared<ProgramUpdate>(program, kernels, devices_)};
  }
  static bool IsDraft(const Made& made) { return made.program->Get()->draft_kernels == 1; }
  bool Done() {
    return Eventually([&] { return upgrades_.pending() == 0; });
  }
  static uint64_t Count(const char* result) { return metrics::DraftUpgrades({result}).value(); }

  FakeCompiler graph_compiler_;
  KernelCompiler compiler_{nullptr, std::chrono::seconds(10)};
  cache::Store store_{1 << 20};
  DeviceSet devices_{NullRegistry()};
  KernelLoader loader_{graph_compiler_, compiler_, store_, {.owner = "test"}};
  std::atomic<int> idle_{0};
  // Nothing goes on because a time is over.
  static constexpr std::chrono::hours kNever{1};
  DraftUpgrades upgrades_{
      2, loader_, [this] { ++idle_; }, {.most = kNever, .first_run = std::chrono::milliseconds(0)}};
};

TEST_F(DraftUpgradesTest, ADraftIsReplaced) {
  const Made made = Make();
  const auto before = made.program->Get();
  ASSERT_TRUE(IsDraft(made));
  const uint64_t compiled = metrics::KernelsCompiled().value();
  const uint64_t upgraded = Count("compiled");
  upgrades_.Add({}, made.update);
  ASSERT_TRUE(Done());
  EXPECT_FALSE(IsDraft(made));
  EXPECT_FALSE(made.program->Get()->steps.at(0).kernel->draft);
  EXPECT_EQ(made.program->Get()->digest, before->digest);
  EXPECT_EQ(before->draft_kernels, 1u);  // as runs that have begun see it
  EXPECT_EQ(graph_compiler_.builds, 2);
  EXPECT_EQ(metrics::KernelsCompiled().value(), compiled) << "requests count their kernels once";
  EXPECT_EQ(Count("compiled"), upgraded + 1);
  EXPECT_TRUE(Eventually([&] { return idle_ == 1; }));
}

TEST_F(DraftUpgradesTest, ProgramsShareAnUpgrade) {
  const Made one = Make(), other = Make();
  upgrades_.Add({}, one.update);
  upgrades_.Add({}, other.update);
  ASSERT_TRUE(Done());
  EXPECT_FALSE(IsDraft(one) || IsDraft(other));
  EXPECT_EQ(graph_compiler_.builds, 2);
}

TEST_F(DraftUpgradesTest, RequestsThatCompileComeFirst) {
  const Made made = Make();
  {
    const DraftUpgrades::Foreground foreground(&upgrades_);
    upgrades_.Add({}, made.update);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(graph_compiler_.builds, 1);
    EXPECT_EQ(upgrades_.pending(), 1);
  }
  ASSERT_TRUE(Done());
  EXPECT_FALSE(IsDraft(made));
}

TEST_F(DraftUpgradesTest, TheFirstRunIsNotDisturbed) {
  const Made made = Make();
  DraftUpgrades upgrades(1, loader_, nullptr, {.most = kNever, .first_run = kNever});
  upgrades.Add({}, made.update);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(graph_compiler_.builds, 1);
  made.program->Get()->run_time.Add(1000);
  ASSERT_TRUE(Eventually([&] { return upgrades.pending() == 0; }));
  EXPECT_FALSE(IsDraft(made));
  EXPECT_TRUE(made.update->has_run());
}

TEST_F(DraftUpgradesTest, AProgramThatDoesNotRunIsUpgradedToo) {
  const Made made = Make();
  DraftUpgrades upgrades(1, loader_, nullptr,
                         {.most = kNever, .first_run = std::chrono::milliseconds(20)});
  upgrades.Add({}, made.update);
  ASSERT_TRUE(Eventually([&] { return upgrades.pending() == 0; }));
  EXPECT_FALSE(IsDraft(made));
  EXPECT_FALSE(made.update->has_run());
}

TEST_F(DraftUpgradesTest, RequestsCannotHoldUpgradesUpForEver) {
  const Made made = Make();
  DraftUpgrades upgrades(1, loader_, nullptr, {.most = std::chrono::milliseconds(20)});
  const DraftUpgrades::Foreground foreground(&upgrades);
  upgrades.Add({}, made.update);
  EXPECT_TRUE(Eventually([&] { return upgrades.pending() == 0; }));
  EXPECT_FALSE(IsDraft(made));
}

TEST_F(DraftUpgradesTest, StopDropsWhatWaits) {
  const Made made = Make();
  const DraftUpgrades::Foreground foreground(&upgrades_);
  const uint64_t cancelled = Count("cancelled");
  upgrades_.Add({}, made.update);
  upgrades_.Stop();
  ASSERT_TRUE(Done());
  EXPECT_TRUE(IsDraft(made));
  EXPECT_EQ(graph_compiler_.builds, 1);
  EXPECT_EQ(Count("cancelled"), cancelled + 1);
  upgrades_.Add({}, Make(3).update);  // nothing is upgraded from now on
  ASSERT_TRUE(Done());
  EXPECT_EQ(Count("cancelled"), cancelled + 2);
}

TEST_F(DraftUpgradesTest, StopEndsWhatRuns) {
  const Made made = Make();
  std::latch begun(1);
  graph_compiler_.on_interrupt = [&](Interrupt& interrupt) {
    begun.count_down();
    while (interrupt.Check().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return interrupt.Check();
  };
  upgrades_.Add({}, made.update);
  begun.wait();
  upgrades_.Stop();
  EXPECT_TRUE(Done());
  EXPECT_TRUE(IsDraft(made));
}

TEST_F(DraftUpgradesTest, AFailureLeavesTheDraft) {
  const Made made = Make();
  graph_compiler_.on_build = [] { return absl::InternalError("the optimiser fails"); };
  const uint64_t failed = Count("failed");
  upgrades_.Add({}, made.update);
  ASSERT_TRUE(Done());
  EXPECT_TRUE(IsDraft(made));
  EXPECT_EQ(Count("failed"), failed + 1);
}

TEST_F(DraftUpgradesTest, NothingIsCompiledForAProgramThatNobodyHolds) {
  Made made = Make();
  const uint64_t dropped = Count("dropped");
  made.program.reset();
  upgrades_.Add({}, made.update);
  ASSERT_TRUE(Done());
  EXPECT_EQ(graph_compiler_.builds, 1);
  EXPECT_EQ(Count("dropped"), dropped + 1);
}

// Tuning may be done before an upgrade.
TEST_F(DraftUpgradesTest, ATunedKernelStays) {
  const Made made = Make();
  auto tuned = std::make_shared<Kernel>(*made.update->KernelAt(0));
  tuned->tuned = true;
  tuned->draft = false;
  ASSERT_TRUE(made.update->Replace(0, tuned).ok());
  auto optimised = std::make_shared<Kernel>(*tuned);
  optimised->tuned = false;
  ASSERT_TRUE(made.update->Replace(0, optimised).ok());
  EXPECT_EQ(made.update->KernelAt(0), tuned);
  EXPECT_EQ(made.program->Get()->tuned_kernels, 1u);
}

TEST_F(DraftUpgradesTest, ManyProgramsRunWhileTheyAreReplaced) {
  std::vector<Made> all;
  for (int i = 0; i < 20; ++i) all.push_back(Make(i % 7 + 2));
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      for (const Made& made : all) {
        const auto program = made.program->Get();
        EXPECT_EQ(program->steps.at(0).kernel->draft, program->draft_kernels == 1);
      }
    }
  });
  for (const Made& made : all) upgrades_.Add({}, made.update);
  EXPECT_TRUE(Done());
  stop = true;
  reader.join();
  for (const Made& made : all) EXPECT_FALSE(IsDraft(made));
  EXPECT_EQ(graph_compiler_.builds, 14);
}

}  // namespace
}  // namespace uopd::engine
