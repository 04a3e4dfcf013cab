// SPDX-License-Identifier: MIT
// What needs no worker; tests/unit/server/worker/tune/tune_kernel_test.cc and
// tests/e2e/tuning_test.cc tune.
#include "server/engine/tune/worker_tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "devices/null/null_device.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

std::shared_ptr<devices::Device> DeviceOf(Target target, int index = 0) {
  return devices::null::NullDevice::Open({.index = index, .target = std::move(target)});
}

class WorkerTunerTest : public testing::Test {
 protected:
  // There is no program to fork workers from.
  static std::unique_ptr<worker::ForkServer> NoForks() {
    worker::ForkServer::Options options;
    options.program = "/does/not/exist";
    options.await_limit = std::chrono::milliseconds(1);
    return *worker::ForkServer::Start(options);
  }
  static std::string KernelGraph() {
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, ScaleGraph(64, 2), ir::Level::kTensor);
    return schedule::MakeSchedule(ctx, *sink, {})->items.at(0).graph;
  }
  std::string Environment(const CompileOptions& options) const {
    return tuner_.Environment(*device_, options);
  }
  absl::Status Tune(std::string_view graph, const std::function<bool()>& cancelled) {
    return tuner_.Tune(graph, *device_, {.beam = 2}, {.work = {.cancelled = cancelled}}).status();
  }

  const std::unique_ptr<worker::ForkServer> forks_ = NoForks();
  worker::Supervisor compile_{*forks_, {}}, measure_{*forks_, {}};
  const WorkerTuner::Pools pools_ = [this](const devices::Device&) {
    return worker::WorkerPools{compile_, measure_};
  };
  WorkerTuner tuner_{pools_, {}};
  const std::shared_ptr<devices::Device> device_ = DeviceOf(devices::null::NullTarget());
};

TEST_F(WorkerTunerTest, TheEnvironmentHasWhatDecidesTheWinner) {
  const CompileOptions options{.beam = 2};
  const std::string environment = Environment(options);
  EXPECT_THAT(environment, HasSubstr(Cat("record=", kTuningRecordVersion)));
  EXPECT_THAT(environment, HasSubstr("width=2"));
  EXPECT_EQ(Environment(options), environment);
  EXPECT_NE(Environment({.beam = 3}), environment);
  EXPECT_NE(Environment({.fast_math = true, .beam = 2}), environment);
  Target other = devices::null::NullTarget();
  other.vector_registers = 32;
  EXPECT_NE(tuner_.Environment(*DeviceOf(other), options), environment);
  const WorkerTuner hasty(pools_, {.timeout = std::chrono::milliseconds(5)});
  EXPECT_NE(hasty.Environment(*device_, options), environment);
  const WorkerTuner narrow(pools_, {.max_candidates = 7});
  EXPECT_NE(narrow.Environment(*device_, options), environment);
}

TEST_F(WorkerTunerTest, TheEnvironmentHasNothingElse) {
  const std::string environment = Environment({.beam = 2});
  EXPECT_EQ(Environment({.beam = 2, .ignore_beam_cache = true, .cache_level = 1}), environment);
  // Equal devices share what was found.
  EXPECT_EQ(tuner_.Environment(*DeviceOf(devices::null::NullTarget(), 5), {.beam = 2}),
            environment);
}

TEST_F(WorkerTunerTest, BytesThatAreNoKernelGraphAreInvalid) {
  EXPECT_TRUE(absl::IsInvalidArgument(Tune("noise", nullptr)));
  EXPECT_FALSE(Tune(ScaleGraph(4, 2), nullptr).ok()) << "a tensor graph is no kernel graph";
}

TEST_F(WorkerTunerTest, WithoutWorkersThereIsNoWinner) {
  EXPECT_FALSE(Tune(KernelGraph(), nullptr).ok());
}

TEST_F(WorkerTunerTest, CancellingEndsIt) {
  const absl::Status status = Tune(KernelGraph(), [] { return true; });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

TEST_F(WorkerTunerTest, RestWithoutWorkersDoesNothing) { tuner_.Rest(*device_); }

}  // namespace
}  // namespace uopd::engine
