// SPDX-License-Identifier: MIT
#include "server/engine/run/run_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "devices/null/null_device.h"
#include "server/engine/run/streams.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using testing::HasSubstr;

// Runs slot 0 = slot 1 * 2 of 4 floats on NULL, which launches and computes nothing.
class RunServiceTest : public testing::Test {
 protected:
  explicit RunServiceTest(devices::RegistryOptions options = TestDevices())
      : devices_(NullRegistry(std::move(options))) {}
  void SetUp() override {
    RequestContext request;
    auto handle = WaitForProgram(service_, request, {"", ScaleGraph(4, 2)}, {});
    ASSERT_TRUE(handle.ok()) << handle.status();
    program_ = (*handle)->Get();
  }
  absl::StatusOr<ExecuteResult> Run(std::vector<Argument> arguments,
                                    std::vector<uint64_t> free = {}) {
    RequestContext request;
    return Run(request, {arguments, {}, free});
  }
  absl::StatusOr<ExecuteResult> Run(RequestContext& request, const RunCall& call) {
    return Await<absl::StatusOr<ExecuteResult>>([&](auto done) {
      StartRun({request, program_, buffers_, call, limits_, watch_, task_pool_}, done);
    });
  }
  devices::null::NullDevice& device() {
    return dynamic_cast<devices::null::NullDevice&>((*devices_.Get(""))->device());
  }

  FakeCompiler graph_compiler_;
  cache::Store store_{1 << 20};
  DeviceSet devices_;
  TaskPool task_pool_{1, SIZE_MAX};
  CompileService service_{{}, graph_compiler_, store_, devices_, task_pool_};
  std::shared_ptr<const Program> program_;
  Quota quota_{"limits.session_bytes", 100 * ChargedBytes(16)};
  BufferStore buffers_{quota_};
  RunLimits limits_;
  RunWatch watch_;
  const std::string data_ = "0123456789abcdef";
};

TEST_F(RunServiceTest, ReturnsDataAndLeavesNothing) {
  const auto result = Run({{.return_data = true}, {.data = data_, .return_data = true}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->data, (std::vector<std::string>{std::string(16, '\0'), data_}));
  EXPECT_EQ(device().launches(), 1);
  EXPECT_EQ(quota_.used(), 0);
  EXPECT_EQ(buffers_.size(), 0u);
}

// As when a loop of symbolic size is threads and turns out to have none.
TEST_F(RunServiceTest, ALaunchOfNoThreadsIsLeftOut) {
  graph_compiler_.launch.grid[0] = 0;
  RequestContext request;
  auto handle = WaitForProgram(service_, request, {"", ScaleGraph(4, 3)}, {});
  ASSERT_TRUE(handle.ok()) << handle.status();
  program_ = (*handle)->Get();
  const int before = static_cast<int>(device().launches());
  ASSERT_TRUE(Run({{.return_data = true}, {.data = data_}}).ok());
  EXPECT_EQ(device().launches(), before);
}

TEST_F(RunServiceTest, NewHandlesStayAndFreedOnesGo) {
  ASSERT_TRUE(Run({{.buffer = 1}, {.buffer = 2, .data = data_}}).ok());
  EXPECT_EQ(buffers_.size(), 2u);
  EXPECT_EQ(quota_.used(), 2 * ChargedBytes(16));
  ASSERT_TRUE(Run({{.buffer = 1}, {.buffer = 2}}, {1, 2, 3}).ok());
  EXPECT_EQ(buffers_.size(), 0u);
  EXPECT_EQ(quota_.used(), 0);
}

TEST_F(RunServiceTest, OneNewHandleForTwoSlotsIsOneBuffer) {
  ASSERT_TRUE(Run({{.buffer = 1, .return_data = true}, {.buffer = 1, .data = data_}}).ok());
  EXPECT_EQ(buffers_.size(), 1u);
  EXPECT_EQ(quota_.used(), ChargedBytes(16));
}

TEST_F(RunServiceTest, QuotasHoldForWhatARunMakes) {
  quota_.set_limit(2 * ChargedBytes(16) - 1);
  const auto result = Run({{.buffer = 1}, {.data = data_}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(result.status()), HasSubstr("slot 1"));
  EXPECT_EQ(quota_.used(), 0);
  EXPECT_EQ(buffers_.size(), 0u);
}

TEST_F(RunServiceTest, RefusesWhatDoesNotFit) {
  const auto refused = [&](std::vector<Argument> arguments, const char* text,
                           absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const auto result = Run(std::move(arguments));
    EXPECT_EQ(result.status().code(), code) << text;
    EXPECT_THAT(StatusText(result.status()), HasSubstr(text));
  };
  ASSERT_TRUE(buffers_.Create(9, **devices_.Get("NULL:1"), 16).ok());
  ASSERT_TRUE(buffers_.Create(8, **devices_.Get(""), 17).ok());
  refused({{}, {.buffer = 9}}, "NULL:1");
  refused({{.buffer = 8}, {.data = data_}}, "buffer 8 of slot 0");
  refused({{}, {}}, "slot 1");
  refused({{}, {.buffer = 77}}, "buffer 77 of slot 1", absl::StatusCode::kNotFound);
  refused({{}, {.data = "short"}}, "slot 1");
  refused({{.data = data_, .return_data = true}, {.buffer = 5}}, "buffer 5",
          absl::StatusCode::kNotFound);
  EXPECT_EQ(device().launches(), 0);
  EXPECT_EQ(buffers_.size(), 2u);
}

TEST_F(RunServiceTest, DataForOneBufferComesFromOneSlot) {
  ASSERT_TRUE(buffers_.Create(1, **devices_.Get(""), 16).ok());
  EXPECT_EQ(Run({{.buffer = 1, .data = data_}, {.buffer = 1, .data = data_}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(RunServiceTest, TooMuchToReturnIsRefused) {
  limits_.max_return_bytes = 31;
  const auto result = Run({{.return_data = true}, {.data = data_, .return_data = true}});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
}

// Copies that happen later find the strings where they were when they were queued: short ones would
// move with the vector that holds them.
TEST(RunServiceLateTest, ReturnedDataStayWhereTheyAre) {
  const std::shared_ptr<devices::Device> device =
      devices::null::NullDevice::Open({.background = std::chrono::microseconds(100)});
  DeviceSet devices(*devices::Registry::Of(std::span(&device, 1)));
  FakeCompiler graph_compiler;
  cache::Store store(1 << 20);
  TaskPool task_pool(1, SIZE_MAX);
  CompileService service({}, graph_compiler, store, devices, task_pool);
  // Sums of eight slots of one float each.
  ir::UOpContext ctx;
  const ir::UOp shape = ir::ShapeArg(ctx, std::initializer_list<int64_t>{1});
  ir::UOp sum = ir::Param(ctx, 1, ir::Dtype::F32, shape);
  for (int64_t i = 2; i <= 8; ++i) {
    sum = ir::Add(ctx, sum, ir::Param(ctx, i, ir::Dtype::F32, shape));
  }
  const ir::UOp out = ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape), sum);
  RequestContext request;
  const auto handle = WaitForProgram(service, request,
                                     {"", ir::Encode(ctx, ir::Sink(ctx, std::span(&out, 1)))}, {});
  ASSERT_TRUE(handle.ok()) << StatusText(handle.status());
  Quota quota("limits.session_bytes", 9 * ChargedBytes(4));
  BufferStore buffers(quota);
  RunWatch watch;
  std::vector<Argument> arguments = {{.return_data = true}};
  std::vector<std::string> want = {std::string(4, '\0')};
  for (char c = 'a'; c < 'i'; ++c) want.emplace_back(4, c);
  for (size_t i = 1; i <= 8; ++i) arguments.push_back({.data = want[i], .return_data = true});
  const auto result = Await<absl::StatusOr<ExecuteResult>>([&](auto done) {
    StartRun({request, (*handle)->Get(), buffers, {arguments, {}, {}}, {}, watch, task_pool}, done);
  });
  ASSERT_TRUE(result.ok()) << StatusText(result.status());
  EXPECT_EQ(result->data, want);
}

// What is the same in every run is recorded by the first, where the device works by itself.
TEST(RunServiceLateTest, ReplaysWhatTheFirstRunHasRecorded) {
  const auto late = devices::null::NullDevice::Open({.background = std::chrono::microseconds(100)});
  const std::shared_ptr<devices::Device> device = late;
  DeviceSet devices(*devices::Registry::Of(std::span(&device, 1)));
  FakeCompiler graph_compiler;
  cache::Store store(1 << 20);
  TaskPool task_pool(1, SIZE_MAX);
  CompileService service({}, graph_compiler, store, devices, task_pool);
  RequestContext request;
  const auto handle = WaitForProgram(service, request, {"", ScaleGraph(4, 2)}, {});
  ASSERT_TRUE(handle.ok()) << StatusText(handle.status());
  // The same step twice, the second from a temporary in the middle of its arena.
  auto program = std::make_shared<Program>(*(*handle)->Get());
  program->arenas = {{program->devices[0], 128}};
  program->temporaries = {{0, 64, 16}};
  program->steps.push_back(program->steps[0]);
  program->steps[0].buffers[0] = {schedule::BufferRef::kTemporary, 0};
  program->steps[1].buffers[1] = {schedule::BufferRef::kTemporary, 0};
  EXPECT_FALSE(RunsInline(*program));
  Quota quota("limits.session_bytes", 4 * ChargedBytes(128));
  BufferStore buffers(quota);
  RunWatch watch;
  const std::string data(16, 'x');
  for (int run = 1; run <= 3; ++run) {
    const std::vector<Argument> arguments = {{.return_data = true}, {.data = data}};
    const auto result = Await<absl::StatusOr<ExecuteResult>>([&](auto done) {
      StartRun({request, program, buffers, {arguments, {}, {}}, {}, watch, task_pool}, done);
    });
    ASSERT_TRUE(result.ok()) << StatusText(result.status());
    EXPECT_EQ(late->launches(), 2 * run);
    EXPECT_EQ(late->memory().used_bytes, 0u);
    EXPECT_EQ(quota.used(), 0);
  }
  const auto recorded = program->recording.Get();
  ASSERT_NE(recorded, nullptr);
  EXPECT_EQ(recorded->buffers.size(), 3u);  // two slots and the arena
  ASSERT_EQ(recorded->program->launches().size(), 2u);
  EXPECT_EQ(recorded->program->launches()[0].buffers[0].offset, 64u);
  EXPECT_EQ(Program(*program).recording.Get(), nullptr);  // it may be changed
}

// On a device that runs inline the run is asked before each kernel whether it may go on.
class InlineRunTest : public RunServiceTest {
 protected:
  InlineRunTest() : RunServiceTest(devices::RegistryOptions()) {}
};

// In the middle of a run: what it had begun to write is lost, and nothing else.
TEST_F(InlineRunTest, AFailedRunLosesWhatItHadBegunToWrite) {
  const std::string other(16, 'o');
  ASSERT_TRUE(Run({{.buffer = 1}, {.buffer = 2, .data = data_}}).ok());
  limits_.terms.wanted = [](auto) { return absl::CancelledError("nobody wants it"); };
  // One step only, so the run is not asked again: it needs to be long for that.
  auto longer = std::make_shared<Program>(*program_);
  longer->steps.push_back(longer->steps[0]);
  program_ = longer;
  const auto result = Run({{.buffer = 1}, {.buffer = 2}});
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_THAT(StatusText(result.status()), HasSubstr("nobody wants it"));
  EXPECT_THAT(StatusText(result.status()), HasSubstr("buffer"));
  limits_.terms.wanted = nullptr;

  std::string got(16, '?');
  EXPECT_TRUE(buffers_.Read(devices_, 2, 0, std::span(got)).ok());
  const absl::Status read = buffers_.Read(devices_, 1, 0, std::span(got));
  EXPECT_EQ(read.code(), absl::StatusCode::kDataLoss) << read;
  EXPECT_THAT(StatusText(read), HasSubstr("buffer 1"));
  EXPECT_THAT(StatusText(read), HasSubstr("nobody wants it"));
  // Half of it is not all of it; a run that overwrites it is.
  EXPECT_TRUE(buffers_.Write(devices_, 1, 8, data_.substr(8)).ok());
  EXPECT_TRUE(buffers_.Write(devices_, 1, 0, data_.substr(0, 8)).ok());
  EXPECT_FALSE(buffers_.CheckContents(1).ok());
  EXPECT_EQ(Run({{.buffer = 3}, {.buffer = 1}}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(buffers_.Write(devices_, 1, 8, data_.substr(8)).ok());
  EXPECT_TRUE(Run({{.buffer = 3}, {.buffer = 1}}).ok());
  buffers_.Lose(std::vector<uint64_t>{1, 2}, "test");
  EXPECT_TRUE(Run({{.buffer = 1, .return_data = true}, {.buffer = 3}}).ok());
  EXPECT_TRUE(buffers_.CheckContents(1).ok());
  EXPECT_FALSE(buffers_.CheckContents(2).ok());
  EXPECT_TRUE(Run({{.buffer = 3}, {.buffer = 2, .data = data_}}).ok());
  EXPECT_TRUE(buffers_.CheckContents(2).ok());
}

// A run that brings data and is ended before its first step, or in the middle: the buffer has the
// data, and everybody who has noted the old version sees it.
TEST_F(InlineRunTest, DataOfAnEndedRunChangeTheVersion) {
  ASSERT_TRUE(Run({{.buffer = 1}, {.buffer = 2, .data = data_}}).ok());
  auto longer = std::make_shared<Program>(*program_);
  longer->steps.push_back(longer->steps[0]);
  longer->may_be_long = true;  // it is asked before its first step too
  program_ = longer;
  for (const int last : {0, 1}) {
    int looks = 0;
    limits_.terms.wanted = [&](auto) {
      return looks++ < last ? absl::OkStatus() : absl::CancelledError("nobody wants it");
    };
    const std::string other(16, static_cast<char>('o' + last));
    const uint64_t before = buffers_.Version(2);
    const int64_t launches = device().launches();
    EXPECT_TRUE(absl::IsCancelled(Run({{.buffer = 1}, {.buffer = 2, .data = other}}).status()));
    EXPECT_EQ(device().launches() - launches, last);
    EXPECT_GT(buffers_.Version(2), before);
    std::string got(16, '?');
    EXPECT_TRUE(buffers_.Read(devices_, 2, 0, std::span(got)).ok());
    EXPECT_EQ(got, other);
  }
}

TEST_F(RunServiceTest, WhatCannotBeDoneInTimeIsRefused) {
  auto longer = std::make_shared<Program>(*program_);
  longer->least_ns = 2e9;
  program_ = longer;
  limits_.terms.limit = std::chrono::milliseconds(1999);
  const auto refused = Run({{.buffer = 1}, {.data = data_}});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(refused.status()), HasSubstr("limits.run_ms"));
  EXPECT_THAT(StatusText(refused.status()), HasSubstr("kernel fake"));
  EXPECT_EQ(device().launches(), 0);
  limits_.terms.limit = std::chrono::milliseconds(0);
  EXPECT_TRUE(Run({{.buffer = 1}, {.data = data_}}).ok());
}

// Rows 2 and 3 of slot 1 are copied to slot 0, which is on another device: no kernel runs.
TEST_F(RunServiceTest, CopiesBeginInTheMiddle) {
  ir::UOpContext ctx;
  const ir::Dims whole = {4, 4}, from = {2, 0}, rows = {2, 4};
  const ir::UOp x = ir::Param(ctx, 1, ir::Dtype::I8, ir::ShapeArg(ctx, whole), "NULL:0");
  const ir::UOp part = ir::Shrink(ctx, x, ir::ShapeArg(ctx, from), ir::ShapeArg(ctx, rows));
  const ir::UOp there = ctx.Make(ir::Op::COPY, ir::Dtype::I8, {part}, ctx.Data({}, "NULL:1"));
  const ir::UOp store =
      ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::I8, ir::ShapeArg(ctx, rows), "NULL:1"), there);
  RequestContext request;
  const auto handle = WaitForProgram(
      service_, request, {"", ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)))}, {});
  ASSERT_TRUE(handle.ok()) << StatusText(handle.status());
  program_ = (*handle)->Get();
  const auto result = Run({{.return_data = true}, {.data = data_}});
  ASSERT_TRUE(result.ok()) << StatusText(result.status());
  EXPECT_EQ(result->data, (std::vector<std::string>{data_.substr(8)}));
  EXPECT_EQ(program_->steps.size(), 1u);
  EXPECT_EQ(device().launches(), 0);
}

// Runs whose streams wait for `gate`: it stands for a device that is busy.
class BusyDeviceTest : public RunServiceTest {
 protected:
  static constexpr size_t kRuns = 3;

  void SetUp() override {
    RunServiceTest::SetUp();
    ASSERT_TRUE(buffers_.Create(1, **devices_.Get(""), 16).ok());
    std::vector<StreamLease> leases;
    for (size_t i = 0; i < kRuns; ++i) {
      leases.push_back(*StreamLease::Take(**devices_.Get("")));
      ASSERT_TRUE(leases.back()->Wait(gate_, 1).ok());
    }
    for (StreamLease& lease : leases) lease.GiveBack();
  }
  void Start(size_t i) {
    arguments_[i] = {{.buffer = i + 1, .return_data = true}, {.data = data_, .return_data = true}};
    StartRun(
        {requests_[i], program_, buffers_, {arguments_[i], {}, {}}, limits_, watch_, task_pool_},
        [this, i](absl::StatusOr<ExecuteResult> result) {
          threads_[i] = std::this_thread::get_id();
          ended_[i].set_value(std::move(result));
        });
  }
  bool HasEnded(size_t i) {
    return results_[i].wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  std::shared_ptr<devices::Semaphore> gate_ = std::make_shared<devices::Semaphore>();
  RequestContext requests_[kRuns];
  std::vector<Argument> arguments_[kRuns];
  std::promise<absl::StatusOr<ExecuteResult>> ended_[kRuns];
  std::future<absl::StatusOr<ExecuteResult>> results_[kRuns] = {
      ended_[0].get_future(), ended_[1].get_future(), ended_[2].get_future()};
  std::thread::id threads_[kRuns];
};

// Three runs are on the device, and neither this thread nor the only one of the task pool is
// theirs.
TEST_F(BusyDeviceTest, ARunHoldsNoThread) {
  for (size_t i = 0; i < kRuns; ++i) Start(i);
  const bool free =
      Await<bool>([&](auto done) { task_pool_.Post([done]() mutable { done(true); }); });
  EXPECT_TRUE(free);
  for (size_t i = 0; i < kRuns; ++i) EXPECT_FALSE(HasEnded(i)) << i;
  EXPECT_EQ(device().launches(), 0);
  EXPECT_EQ(buffers_.size(), 1u);
  gate_->Signal(1);
  for (size_t i = 0; i < kRuns; ++i) {
    const auto result = results_[i].get();
    ASSERT_TRUE(result.ok()) << StatusText(result.status());
    EXPECT_EQ(result->data, (std::vector<std::string>{std::string(16, '\0'), data_}));
    EXPECT_NE(threads_[i], std::this_thread::get_id());
    EXPECT_GT(requests_[i].timings[Phase::kRun], 0);
  }
  EXPECT_EQ(device().launches(), static_cast<int64_t>(kRuns));
  EXPECT_EQ(buffers_.size(), kRuns);
}

TEST_F(BusyDeviceTest, AFailureOfTheDeviceIsTheRuns) {
  for (size_t i = 0; i < kRuns; ++i) Start(i);
  gate_->Fail(absl::UnavailableError("fell off the bus"));
  for (size_t i = 0; i < kRuns; ++i) {
    const absl::Status status = results_[i].get().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(StatusText(status), HasSubstr("fell off the bus"));
    EXPECT_THAT(StatusText(status), HasSubstr("running kernel fake"));
  }
  EXPECT_EQ(device().launches(), 0);
  // The streams are not used again, and what was there before is lost.
  EXPECT_TRUE(Run({{.buffer = 9}, {.data = data_}}).ok());
  EXPECT_EQ(buffers_.CheckContents(1).code(), absl::StatusCode::kDataLoss);
}

TEST_F(BusyDeviceTest, ARunThatIsEndedWhileItWaitsWritesNothing) {
  auto longer = std::make_shared<Program>(*program_);
  longer->may_be_long = true;
  program_ = longer;
  std::atomic<bool> wanted{true};
  limits_.terms.wanted = [&](auto) {
    return wanted ? absl::OkStatus() : absl::CancelledError("nobody wants it");
  };
  Start(0);
  EXPECT_EQ(watch_.size(), 1u);
  wanted = false;
  while (watch_.LongestOverdue() == std::chrono::nanoseconds(0)) std::this_thread::yield();
  EXPECT_FALSE(HasEnded(0)) << "its device still has it";
  gate_->Signal(1);
  const absl::Status status = results_[0].get().status();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_THAT(StatusText(status), HasSubstr("nobody wants it"));
  EXPECT_EQ(device().launches(), 0);
  EXPECT_EQ(watch_.size(), 0u);
}

TEST_F(RunServiceTest, ALostDeviceIsUnavailableAndComesBack) {
  device().SetStatus(absl::UnavailableError("fell off the bus"));
  EXPECT_EQ(Run({{.buffer = 1}, {.data = data_}}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(buffers_.size(), 0u);
  EXPECT_EQ(quota_.used(), 0);
  device().SetStatus(absl::OkStatus());
  EXPECT_TRUE(Run({{.buffer = 1}, {.data = data_}}).ok());
}

TEST_F(RunServiceTest, ACancelledRunChangesNothing) {
  RequestContext request;
  request.cancelled = [] { return true; };
  const std::vector<Argument> arguments = {{.buffer = 1}, {.data = data_}};
  EXPECT_TRUE(absl::IsCancelled(Run(request, {arguments, {}, {}}).status()));
  EXPECT_EQ(buffers_.size(), 0u);
}

// Arguments for every slot of the graph are taken, also for those that its program does not need.
TEST_F(RunServiceTest, CopiesThatNothingReadsTakeArguments) {
  ir::UOpContext ctx;
  const ir::Dims dims = {16};
  const ir::UOp shape = ir::ShapeArg(ctx, dims);
  const ir::UOp p = ir::Param(ctx, 1, ir::Dtype::I8, shape, "NULL:0");
  const ir::UOp q = ir::Param(ctx, 2, ir::Dtype::I8, shape, "NULL:1");
  const ir::UOp both = ctx.Make(ir::Op::MULTI, ir::Dtype::I8, {p, q}, ctx.Data({}));
  const ir::UOp one = ctx.Make(ir::Op::COPY, ir::Dtype::I8, {both}, ctx.Data({}, "NULL:0"));
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::I8, shape, "NULL:0"), one);
  RequestContext request;
  const auto handle = WaitForProgram(
      service_, request, {"", ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)))}, {});
  ASSERT_TRUE(handle.ok()) << StatusText(handle.status());
  program_ = (*handle)->Get();
  const auto result = Run({{.return_data = true}, {.data = data_}, {.data = data_}});
  EXPECT_TRUE(result.ok()) << StatusText(result.status());
}

}  // namespace
}  // namespace uopd::engine
