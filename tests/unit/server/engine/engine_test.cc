// SPDX-License-Identifier: MIT
// Requests whose clients leave, on the CPU device with the real compiler: what goes on, what is
// stopped, what is lost and what a repeated request id is told.
#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "cache/store.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "devices/api/host/thread_priority.h"
#include "devices/null/null_device.h"
#include "server/engine/compile/source/core_compiler.h"
#include "tests/support/eventually.h"
#include "tests/support/model_graphs.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kParams = 6;
constexpr int64_t kRows = 8, kColumns = 8, kBytes = kRows * kColumns * 4;

std::string AdamStep() {
  ir::UOpContext ctx;
  return ir::Encode(ctx, uopd::test::AdamGraph(ctx, kParams, kRows, kColumns));
}

// slot 0 [0] = sum of sin(i) of n integers.
std::string LongSum(int64_t n) {
  ir::UOpContext ctx;
  const ir::Dims one = {1}, all = {n};
  const ir::UOp iota =
      ctx.Make(ir::Op::IOTA, ir::Dtype::I64, {ir::ShapeArg(ctx, all)}, ir::Arg::Int(0));
  const ir::UOp x = ctx.Make(ir::Op::CAST, ir::Dtype::F32, {iota});
  uopd::test::GraphBuilder g(ctx);
  const ir::UOp sum = g.Sum(ir::Alu(ctx, ir::Op::SIN, {x}), {0});
  const ir::UOp store =
      ir::Store(ctx, ir::Param(ctx, 0, ir::Dtype::F32, ir::ShapeArg(ctx, one)), sum);
  return ir::Encode(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

class EngineTest : public ::testing::Test {
 protected:
  explicit EngineTest(std::string run_limit = "60s",
                      devices::RegistryOptions options = TestDevices()) {
    Config config;
    EXPECT_TRUE(config.Set("limits.run_ms", run_limit, ConfigSource::kFlag).ok());
    EXPECT_TRUE(config.Set("session.grace_ms", "60s", ConfigSource::kFlag).ok());
    EXPECT_TRUE(config.ResolveDefaults().ok());
    options.memory_limit_bytes = 256 << 20;
    options.cpu_threads = 2;
    auto engine = Engine::Create(config, std::make_unique<CoreCompiler>(),
                                 std::make_unique<cache::Store>(16 << 20),
                                 *devices::Registry::Create(options), nullptr);
    EXPECT_TRUE(engine.ok()) << StatusText(engine.status());
    engine_ = *std::move(engine);
  }

  SessionUse Open() { return *engine_->sessions().Open(std::chrono::minutes(1)); }
  // Weights, gradients and moments under handles 1, 2, ...
  void UploadState(Session& session) {
    for (uint64_t handle = 1; handle <= 4 * kParams; ++handle) {
      std::string bytes(kBytes, '\0');
      for (int64_t i = 0; i < kBytes / 4; ++i) {
        const float value = 0.25f + static_cast<float>(handle * 31 + i % 17) / 100;
        std::memcpy(&bytes[4 * i], &value, 4);
      }
      ASSERT_TRUE(engine_->buffers().OpenUpload(session, handle, kBytes, "").ok());
      ASSERT_TRUE(engine_->buffers().Write(session, handle, 0, bytes).ok());
    }
  }
  std::vector<std::string> State(Session& session) {
    std::vector<std::string> out;
    for (uint64_t handle = 1; handle <= 4 * kParams; ++handle) {
      std::string& bytes = out.emplace_back(kBytes, '\0');
      const absl::Status read = engine_->buffers().Read(session, handle, 0, std::span(bytes));
      if (!read.ok()) bytes = StatusText(read);
    }
    return out;
  }
  absl::Status Prepare(RequestContext& request, const std::string& graph) {
    using Made = absl::StatusOr<std::shared_ptr<const Program>>;
    return Await<Made>([&](auto done) {
             engine_->programs().Prepare(request, engine_->programs().Resolve({"", graph}, {}),
                                         done);
           })
        .status();
  }
  absl::Status Compile() {
    RequestContext request;
    return Prepare(request, adam_);
  }
  absl::StatusOr<ExecuteResult> Execute(RequestContext& request, Session& session,
                                        ExecuteCall call) {
    call.where = ExecuteCall::Where::kHere;
    return Await<absl::StatusOr<ExecuteResult>>(
        [&](auto done) { engine_->runs().Execute(request, session, call, done); });
  }
  absl::StatusOr<ExecuteResult> Step(Session& session, uint64_t request_id,
                                     std::function<bool()> cancelled = nullptr,
                                     bool returned = false, CompileOptions options = {}) {
    RequestContext request;
    request.cancelled = std::move(cancelled);
    std::vector<Argument> arguments;
    for (uint64_t handle = 1; handle <= 4 * kParams; ++handle) {
      arguments.push_back({.buffer = handle, .return_data = returned && handle <= 12});
    }
    ExecuteCall call;
    call.request_id = request_id;
    call.wanted = engine_->programs().Resolve({"", adam_}, options);
    call.run.arguments = arguments;
    return Execute(request, session, call);
  }

  const std::string adam_ = AdamStep();
  std::unique_ptr<Engine> engine_;
};

// On a device that runs inline the daemon looks at the connection before each kernel.
class InlineEngineTest : public EngineTest {
 protected:
  InlineEngineTest() : EngineTest("60s", {}) {}
};

// The connection is cut at every look that the daemon takes at it, that is, before the run and
// before each of its kernels.
TEST_F(InlineEngineTest, ACutConnectionNeverLeavesHalfAStep) {
  SessionUse undisturbed = Open();
  UploadState(*undisturbed);
  ASSERT_TRUE(Compile().ok());  // which looks often
  const std::vector<std::string> before = State(*undisturbed);
  int looks = 0;
  ASSERT_TRUE(Step(*undisturbed, 0, [&] { return ++looks, false; }).ok());
  const std::vector<std::string> after = State(*undisturbed);
  ASSERT_NE(before, after);
  ASSERT_GE(looks, kParams) << "the step has too few kernels to be cut";
  int stopped = 0, went_on = 0, lost = 0;
  for (int cut = 1; cut <= looks; ++cut) {
    // With an id: all of the step or nothing, and all of it after the request was repeated.
    SessionUse session = Open();
    UploadState(*session);
    int look = 0;
    const auto first = Step(*session, 7, [&] { return ++look >= cut; });
    first.ok() ? ++went_on : ++stopped;
    EXPECT_EQ(State(*session), first.ok() ? after : before) << cut;
    const auto again = Step(*session, 7);
    EXPECT_TRUE(again.ok()) << cut << StatusText(again.status());
    EXPECT_EQ(State(*session), after) << cut;
    // Without one it stops at once: what it had begun to write says so, the rest is as it was.
    SessionUse other = Open();
    UploadState(*other);
    look = 0;
    EXPECT_TRUE(absl::IsCancelled(Step(*other, 0, [&] { return ++look >= cut; }).status())) << cut;
    const std::vector<std::string> left = State(*other);
    for (size_t i = 0; i < left.size(); ++i) {
      const bool is_lost = left[i].find("lost") != std::string::npos;
      lost += is_lost;
      EXPECT_TRUE(is_lost || left[i] == before[i]) << "cut " << cut << " buffer " << i + 1;
    }
  }
  EXPECT_GT(stopped, 0);
  EXPECT_GT(went_on, 0);
  EXPECT_GT(lost, 0);
}

TEST_F(InlineEngineTest, ACancelledIdStopsAnywhereAndSaysSo) {
  SessionUse undisturbed = Open();
  ASSERT_TRUE(Compile().ok());
  UploadState(*undisturbed);
  int looks = 0;
  ASSERT_TRUE(Step(*undisturbed, 0, [&] { return ++looks, false; }).ok());
  SessionUse session = Open();
  UploadState(*session);
  int look = 0;
  const auto cancel_late = [&] {
    if (++look == looks) RunCalls::Cancel(*session, 7);
    return false;
  };
  const auto first = Step(*session, 7, cancel_late);
  EXPECT_TRUE(absl::IsCancelled(first.status())) << StatusText(first.status());
  const auto again = Step(*session, 7);
  EXPECT_EQ(again.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(StatusText(again.status()), HasSubstr("request id (7)"));
  // Another request meets the lost buffers, until they are uploaded again.
  EXPECT_EQ(Step(*session, 8).status().code(), absl::StatusCode::kDataLoss);
  UploadState(*session);
  EXPECT_TRUE(Step(*session, 8).ok());
  EXPECT_EQ(State(*session), State(*undisturbed));
  // One that has not come yet is as good as cancelled too; one that is done stays done.
  RunCalls::Cancel(*session, 9);
  RunCalls::Cancel(*session, 8);
  EXPECT_TRUE(absl::IsCancelled(Step(*session, 9).status()));
  EXPECT_TRUE(Step(*session, 8).ok());
}

// The repetition of a request may find that its program has to be prepared first, here because of
// other options.
TEST_F(InlineEngineTest, ADoneIdStaysDoneAlsoIfItsProgramIsNotReady) {
  SessionUse session = Open();
  UploadState(*session);
  ASSERT_TRUE(Compile().ok());
  const auto first = Step(*session, 7, nullptr, true);
  ASSERT_TRUE(first.ok()) << StatusText(first.status());
  const std::vector<std::string> state = State(*session);
  RunCalls::Cancel(*session, 7);
  const auto again = Step(*session, 7, nullptr, true, {.noopt = true});
  ASSERT_TRUE(again.ok()) << StatusText(again.status());
  EXPECT_EQ(again->data, first->data);
  EXPECT_EQ(State(*session), state);
  RunCalls::Cancel(*session, 8);  // has not come yet
  EXPECT_TRUE(absl::IsCancelled(Step(*session, 8, nullptr, true, {.fast_math = true}).status()));
  EXPECT_EQ(State(*session), state);
}

// The old device gets no more work.
TEST(LostDeviceTest, ProgramsAreMadeAgainForTheNewDevice) {
  devices::RegistryOptions options{.devices = "NULL", .retry = std::chrono::milliseconds(0)};
  std::vector<std::shared_ptr<devices::null::NullDevice>> opened;
  options.open =
      [&](const devices::DeviceName&) -> absl::StatusOr<std::shared_ptr<devices::Device>> {
    return opened.emplace_back(devices::null::NullDevice::Open({}));
  };
  Config config;
  ASSERT_TRUE(config.ResolveDefaults().ok());
  auto engine = Engine::Create(config, std::make_unique<CoreCompiler>(),
                               std::make_unique<cache::Store>(16 << 20),
                               *devices::Registry::Create(options), nullptr);
  ASSERT_TRUE(engine.ok()) << StatusText(engine.status());
  SessionUse session = *(*engine)->sessions().Open(std::chrono::minutes(1));
  const std::string graph = LongSum(100);
  const auto run = [&](uint64_t handle) {
    RequestContext request;
    ExecuteCall call;
    call.where = ExecuteCall::Where::kHere;
    call.wanted = (*engine)->programs().Resolve({"", graph}, {});
    const std::vector<Argument> arguments = {{.buffer = handle}};
    call.run.arguments = arguments;
    return Await<absl::StatusOr<ExecuteResult>>(
               [&](auto done) { (*engine)->runs().Execute(request, *session, call, done); })
        .status();
  };
  EXPECT_TRUE(run(1).ok());
  EXPECT_TRUE(run(1).ok());
  ASSERT_EQ(opened.size(), 1u);
  const int64_t launches = opened[0]->launches();
  EXPECT_GT(launches, 0);
  opened[0]->SetStatus(absl::UnavailableError("fell off the bus"));
  // The buffer is gone with the device; the session hears why.
  const absl::Status lost = run(1);
  EXPECT_TRUE(absl::IsDataLoss(lost)) << StatusText(lost);
  EXPECT_THAT(StatusText(lost), HasSubstr("fell off the bus"));
  EXPECT_TRUE(run(2).ok());
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_GT(opened[1]->launches(), 0);
  EXPECT_EQ(opened[0]->launches(), launches);
}

TEST_F(EngineTest, ADoneIdDoesNotRunAgainWithoutItsData) {
  SessionUse session = Open();
  UploadState(*session);
  const auto first = Step(*session, 1, nullptr, true);
  ASSERT_TRUE(first.ok());
  const auto state = State(*session);
  // Push its data out of memory.
  for (uint64_t id = 100; id < 110; ++id) {
    session->results().Remember(id, HashBytes("other"), {{std::string(1 << 20, 'x')}}, {});
  }
  const auto again = Step(*session, 1, nullptr, true);
  ASSERT_TRUE(again.ok()) << StatusText(again.status());
  EXPECT_EQ(again->data, first->data);
  EXPECT_EQ(State(*session), state);
  ASSERT_TRUE(Step(*session, 2).ok());
  const auto changed = State(*session);
  const auto late = Step(*session, 1, nullptr, true);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(StatusText(late.status()), HasSubstr("buffer 1"));
  EXPECT_EQ(State(*session), changed);
}

class LongRunTest : public EngineTest {
 protected:
  explicit LongRunTest(std::string limit = "60s") : EngineTest(std::move(limit)) {}

  absl::Status Run(RequestContext& request, Session& session, uint64_t request_id = 0,
                   int64_t n = int64_t{1} << 40) {
    const std::string graph = LongSum(n);
    const Argument out = {.buffer = 1};
    ExecuteCall call;
    call.request_id = request_id;
    call.wanted = engine_->programs().Resolve({"", graph}, {});
    call.run.arguments = std::span(&out, 1);
    return Execute(request, session, call).status();
  }
  // Until the run is on the device.
  void AwaitRun() {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (engine_->runs().watch().size() == 0 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(engine_->runs().watch().size(), 1u);
  }
};

TEST_F(LongRunTest, StopsWhenItsCallerLeaves) {
  SessionUse session = Open();
  // A caller may leave before the first kernel begins, and hears of none then.
  bool names_kernel = false;
  for (int tries = 0; tries < 20 && !names_kernel; ++tries) {
    std::atomic<bool> left{false};
    RequestContext request;
    request.cancelled = [&] { return left.load(); };
    absl::Status status;
    std::thread run([&] { status = Run(request, *session); });
    AwaitRun();
    left = true;
    run.join();
    ASSERT_TRUE(absl::IsCancelled(status)) << status;
    names_kernel = StatusText(status).find("running kernel r_") != std::string::npos;
  }
  EXPECT_TRUE(names_kernel);
  UploadState(*session);  // the device is free
  EXPECT_TRUE(Step(*session, 0).ok());
}

TEST_F(LongRunTest, StopsAtItsDeadline) {
  SessionUse session = Open();
  RequestContext compile;
  ASSERT_TRUE(Prepare(compile, LongSum(int64_t{1} << 40)).ok());
  RequestContext request;
  request.deadline = RequestContext::Clock::now() + std::chrono::milliseconds(50);
  EXPECT_EQ(Run(request, *session).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LongRunTest, StopsWhenItsSessionOrTheDaemonEnds) {
  {
    SessionUse session = Open();
    RequestContext request;
    request.cancelled = [] { return false; };
    absl::Status status;
    std::thread run([&] { status = Run(request, *session, 5); });
    AwaitRun();
    EXPECT_TRUE(engine_->sessions().Close(session->id()).ok());
    run.join();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
  }
  SessionUse session = Open();
  RequestContext request;
  absl::Status status;
  std::thread run([&] {
    auto work = engine_->gate().Begin();
    status = Run(request, *session, 6);
  });
  AwaitRun();
  EXPECT_FALSE(engine_->Drain(std::chrono::steady_clock::now()));
  run.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// Small work neither waits for a thread behind long runs nor shares the processor with them evenly.
TEST_F(LongRunTest, HasThreadsOfItsOwnWithALowerPriority) {
  RequestContext quick, slow;
  ASSERT_TRUE(Prepare(quick, LongSum(16)).ok());
  ASSERT_TRUE(Prepare(slow, LongSum(int64_t{1} << 40)).ok());
  EXPECT_EQ(&engine_->programs().RunnerOf(RequestContext()), &engine_->task_pool());
  EXPECT_EQ(&engine_->programs().RunnerOf(quick), &engine_->task_pool());
  TaskPool& runner = engine_->programs().RunnerOf(slow);
  ASSERT_NE(&runner, &engine_->task_pool());
  std::latch done(2);
  devices::ThreadPriority long_run{}, usual{};
  runner.Post([&] { long_run = devices::PriorityOfThread(), done.count_down(); });
  engine_->task_pool().Post([&] { usual = devices::PriorityOfThread(), done.count_down(); });
  done.wait();
  EXPECT_EQ(long_run, devices::ThreadPriority::kBackground);
  EXPECT_EQ(usual, devices::ThreadPriority::kUsual);
}

TEST_F(LongRunTest, RunsAreTimed) {
  constexpr int64_t kTerms = 16;
  SessionUse session = Open();
  RequestContext first;
  ASSERT_TRUE(Prepare(first, LongSum(kTerms)).ok());
  EXPECT_EQ(first.prepared->Get()->run_time.Quickest(), INT64_MAX);
  // On a busy machine one run may take so long that it does not count.
  EXPECT_TRUE(test::Eventually([&] {
    RequestContext request;
    EXPECT_TRUE(Run(request, *session, 0, kTerms).ok());
    return first.prepared->Get()->run_time.Quickest() < INT64_MAX;
  }));
}

// What a run took says more than an estimate for a slow core.
TEST_F(LongRunTest, IsNotLongOnceItWasQuick) {
  RequestContext request;
  ASSERT_TRUE(Prepare(request, LongSum(int64_t{1} << 21)).ok());
  EXPECT_NE(&engine_->programs().RunnerOf(request), &engine_->task_pool());
  // Once more where a better program has taken the place of the draft meanwhile.
  EXPECT_TRUE(test::Eventually([&] {
    request.prepared->Get()->run_time.Add(kLongRunNs);
    return &engine_->programs().RunnerOf(request) == &engine_->task_pool();
  }));
}

class LimitedRunTest : public LongRunTest {
 protected:
  LimitedRunTest() : LongRunTest("100ms") {}
};

TEST_F(LimitedRunTest, StopsWhenItsTimeIsOver) {
  SessionUse session = Open();
  RequestContext request;
  const absl::Status status = Run(request, *session, 0, int64_t{1} << 36);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(status), HasSubstr("limits.run_ms (100 ms)"));
  EXPECT_THAT(StatusText(status), HasSubstr("kernel r_"));
}

TEST_F(LimitedRunTest, WhatNoDeviceCouldDoIsRefused) {
  SessionUse session = Open();
  RequestContext request;
  const absl::Status status = Run(request, *session, 0, int64_t{1} << 45);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(StatusText(status), HasSubstr("at least"));
  EXPECT_EQ(engine_->runs().watch().size(), 0u);
}

}  // namespace
}  // namespace uopd::engine
