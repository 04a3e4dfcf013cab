// SPDX-License-Identifier: MIT
#include "server/engine/run/steps.h"

#include <gtest/gtest.h>

#include "devices/null/null_device.h"
#include "server/engine/run/give_way.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

// Steps of slot 0 = slot 1 * 2 on one NULL device, late or inline, beside a second one.
class StepsTest : public testing::TestWithParam<bool> {
 protected:
  bool late() const { return GetParam(); }
  void SetUp() override {
    devices::RegistryOptions options;
    options.devices = "NULL,NULL:1";
    options.memory_limit_bytes = 64 << 20;
    if (late()) options.force_async_us = 20;
    devices_ = std::make_unique<DeviceSet>(*devices::Registry::Create(options));
    CompileService service({}, graph_compiler_, store_, *devices_, task_pool_);
    RequestContext request;
    const auto handle = WaitForProgram(service, request, {"", ScaleGraph(4, 2)}, {});
    ASSERT_TRUE(handle.ok()) << StatusText(handle.status());
    program_ = std::make_shared<Program>(*(*handle)->Get());
    program_->steps.resize(3, program_->steps[0]);
  }
  int64_t launches(const char* name = "") {
    auto& device = (*devices_->Get(name))->device();
    return dynamic_cast<devices::null::NullDevice&>(device).launches();
  }
  // Queues the steps and waits for them.
  absl::Status Queue(std::span<const int64_t> values = {}) {
    UOPD_ASSIGN(Streams streams, Streams::Take(*program_));
    const std::string data(16, 'x');
    std::vector<Argument> arguments(program_->slots.size());
    arguments[1].data = data;
    UOPD_ASSIGN(Binding binding,
                Binding::Bind(*program_, buffers_, streams, {arguments, values, {}}, {}));
    RequestContext request;
    RunControl control(watch_, request, terms_, program_->may_be_long);
    durations_ns_.assign(program_->steps.size(), -1);
    absl::Status status = QueueSteps(*program_, binding, values, streams, control, durations_ns_,
                                     /*measured=*/false, background_, &begun_);
    for (const DeviceState* device : program_->devices) {
      status.Update(streams.Of(device).Synchronize());
    }
    return status;
  }

  FakeCompiler graph_compiler_;
  cache::Store store_{1 << 20};
  std::unique_ptr<DeviceSet> devices_;
  TaskPool task_pool_{1, SIZE_MAX};
  std::shared_ptr<Program> program_;
  Quota quota_{"limits.session_bytes", 1 << 20};
  BufferStore buffers_{quota_};
  RunWatch watch_;
  RunTerms terms_;
  std::vector<int64_t> durations_ns_;
  size_t begun_ = 0;
  bool background_ = false;
};

TEST_P(StepsTest, EveryKernelRunsAndIsTimed) {
  for (int64_t run = 1; run <= 2; ++run) {
    ASSERT_TRUE(Queue().ok());
    EXPECT_EQ(launches(), 3 * run);
    EXPECT_EQ(begun_, 3u);
    for (const int64_t ns : durations_ns_) EXPECT_GE(ns, 0);
    // Only a device that works by itself gains from a recording.
    EXPECT_EQ(program_->recording.Get() != nullptr, late());
  }
}

TEST_P(StepsTest, LaunchesThatDependOnVariablesAreNotRecorded) {
  program_->variables.push_back({.name = "n", .min = 0, .max = 9});
  const int64_t value = 4;
  ASSERT_TRUE(Queue(std::span(&value, 1)).ok());
  EXPECT_EQ(launches(), 3);
  EXPECT_EQ(program_->recording.Get(), nullptr);
}

TEST_P(StepsTest, AnEmptyLaunchIsLeftOutOfASequence) {
  auto none = std::make_shared<Kernel>(*program_->steps[1].kernel);
  none->launch.grid[0] = 0;
  program_->steps[1].kernel = none;
  ASSERT_TRUE(Queue().ok());
  EXPECT_EQ(launches(), 2);
  EXPECT_EQ(program_->recording.Get(), nullptr);
}

TEST_P(StepsTest, TwoDevicesAreNoSequence) {
  program_->devices.push_back(*devices_->Get("NULL:1"));
  ASSERT_TRUE(Queue().ok());
  EXPECT_EQ(launches(), 3);
  EXPECT_EQ(launches("NULL:1"), 0);
  EXPECT_EQ(program_->recording.Get(), nullptr);
}

// It asks whether the run is wanted between two steps, and in the pause after a step.
TEST_P(StepsTest, ARunInTheBackgroundGivesWayToThoseOfClients) {
  int asked = 0;
  terms_.wanted = [&](auto) { return ++asked, absl::OkStatus(); };
  const ClientRun client(*program_);
  ASSERT_TRUE(Queue().ok());
  const int usual = std::exchange(asked, 0);
  background_ = true;
  ASSERT_TRUE(Queue().ok());
  if (late()) {
    EXPECT_EQ(asked, usual);  // all steps are queued at once
  } else {
    EXPECT_GT(asked, usual);
  }
}

// A run that may be long is asked before its first step, others only between steps.
TEST_P(StepsTest, NothingBeginsOfARunThatIsNotWanted) {
  program_->may_be_long = true;
  terms_.wanted = [](auto) { return absl::CancelledError("nobody wants it"); };
  EXPECT_TRUE(absl::IsCancelled(Queue()));
  EXPECT_EQ(begun_, 0u);
  EXPECT_EQ(launches(), 0);
}

TEST_P(StepsTest, BetweenTwoKernelsARunCanEndWhereItWorksHere) {
  int looks = 0;
  terms_.wanted = [&](auto) {
    return ++looks < 2 ? absl::OkStatus() : absl::CancelledError("nobody wants it");
  };
  const absl::Status status = Queue();
  if (late()) {  // the sequence is the device's now
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(begun_, 3u);
  } else {
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_EQ(begun_, 2u);
    EXPECT_EQ(launches(), 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Device, StepsTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Late" : "Inline"; });

}  // namespace
}  // namespace uopd::engine
