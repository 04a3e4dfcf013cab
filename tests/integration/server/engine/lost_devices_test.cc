// SPDX-License-Identifier: MIT
// A device that is lost, does not open or has no memory left: what the sessions are told, what goes
// on, and how the device comes back. The GPU is the fake of NVIDIA's driver; the CPU is real.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "core/base/text.h"
#include "devices/cuda/cuda_device.h"
#include "server/engine/compile/source/core_compiler.h"
#include "server/engine/engine.h"
#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/eventually.h"
#include "tests/unit/server/engine/fixture.h"

namespace uopd::engine {
namespace {

using devices::DeviceName;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using Opened = absl::StatusOr<std::shared_ptr<devices::Device>>;

constexpr int64_t kValues = 16, kSize = kValues * 4;

// Real kernels for the CPU. Those of the GPU do what `behaviour` says (fake_cuda.h).
class GpuCompiler final : public GraphCompiler {
 public:
  explicit GpuCompiler(std::string& behaviour) : behaviour_(behaviour) {}
  std::string ScheduleEnvironment() const override { return core_.ScheduleEnvironment(); }
  std::string ChoiceEnvironment(const devices::Device& device,
                                const CompileOptions& options) const override {
    return core_.ChoiceEnvironment(device, options);
  }
  absl::StatusOr<schedule::Schedule> MakeSchedule(ir::UOpContext& ctx, ir::UOp sink,
                                                  const schedule::Options& options) const override {
    return core_.MakeSchedule(ctx, sink, options);
  }
  absl::StatusOr<KernelSource> LowerKernel(std::string_view graph, const devices::Device& device,
                                           const CompileOptions& options,
                                           const std::vector<codegen::Opt>* opts, bool draft,
                                           PhaseTimings* timings,
                                           Interrupt* interrupt) const override {
    if (device.target().format != CodeFormat::kPtx) {
      return core_.LowerKernel(graph, device, options, opts, draft, timings, interrupt);
    }
    UOPD_ASSIGN(KernelSource out,
                fake_.LowerKernel(graph, device, options, opts, draft, timings, interrupt));
    out.text = Cat("fake ", behaviour_, " 3");  // two buffers and the stop word
    out.record.polls = true;
    return out;
  }
  absl::StatusOr<KernelText> ExplainKernel(std::string_view graph, const devices::Device& device,
                                           const CompileOptions& options,
                                           const std::vector<codegen::Opt>* opts,
                                           Interrupt* interrupt) const override {
    return core_.ExplainKernel(graph, device, options, opts, interrupt);
  }

 private:
  const std::string& behaviour_;
  const CoreCompiler core_;
  const FakeCompiler fake_;
};

class LostDevicesTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override {
    fake_.ReleaseHanging();
    for (SessionUse* use : {&a_, &b_, &c_}) *use = SessionUse();
    engine_ = nullptr;
    // A thread that worked for a device may be the last one to hold it, and ends its streams. The
    // driver outlives that.
    EXPECT_TRUE(test::Eventually([this] { return !fake_.Live().contains("stream"); }));
  }

  // Session a and b have buffers on the GPU, session c on the CPU.
  void Start(const std::string& run_limit = "60s") {
    for (SessionUse* use : {&a_, &b_, &c_}) *use = SessionUse();
    engine_ = nullptr;
    devices::RegistryOptions options{.devices = "CUDA,CPU", .cpu_threads = 1};
    options.retry = std::chrono::milliseconds(0);
    options.memory_limit_bytes = 64 << 20;
    options.open = [this](const DeviceName& name) -> Opened {
      if (name.driver == "CPU") return cpu_->Get("CPU");
      if (!opens_) return absl::UnavailableError("libcuda.so.1 is not there");
      return devices::cuda::CudaDevice::Open({.memory_limit_bytes = size_t{64} << 20,
                                              .ptx = true,
                                              .stop_grace = std::chrono::milliseconds(20),
                                              .driver = driver_.get(),
                                              .ptxc = "/nowhere/uopd-ptxc"});
    };
    Config config;
    ASSERT_TRUE(config.Set("limits.run_ms", run_limit, ConfigSource::kFlag).ok());
    ASSERT_TRUE(config.ResolveDefaults().ok());
    auto engine = Engine::Create(config, std::make_unique<GpuCompiler>(behaviour_),
                                 std::make_unique<cache::Store>(16 << 20),
                                 *devices::Registry::Create(options), nullptr);
    ASSERT_TRUE(engine.ok()) << StatusText(engine.status());
    engine_ = *std::move(engine);
    a_ = *engine_->sessions().Open(std::chrono::minutes(1));
    b_ = *engine_->sessions().Open(std::chrono::minutes(1));
    c_ = *engine_->sessions().Open(std::chrono::minutes(1));
  }
  void MakeBuffers() {
    for (uint64_t handle = 1; handle <= 10; ++handle) {
      ASSERT_TRUE(engine_->buffers().Create(*a_, handle, kSize, "CUDA").ok());
    }
    for (uint64_t handle : {7, 8}) {
      ASSERT_TRUE(engine_->buffers().Create(*b_, handle, kSize, "CUDA").ok());
    }
    std::vector<float> values(kValues);
    std::iota(values.begin(), values.end(), 1.0f);
    ASSERT_TRUE(*engine_->buffers().OpenUpload(*c_, 2, kSize, "CPU"));
    ASSERT_TRUE(engine_->buffers()
                    .Write(*c_, 2, 0, {reinterpret_cast<const char*>(values.data()), kSize})
                    .ok());
  }

  // Buffer 1 = buffer 2 * factor. Each factor is another program, with the present behaviour.
  std::future<absl::Status> Begin(SessionUse& session, const std::string& device, double factor,
                                  uint64_t to = 1, uint64_t from = 2) {
    struct Call {
      RequestContext request;
      std::string graph;
      std::vector<Argument> arguments;
      std::promise<absl::Status> status;
    };
    auto call = std::make_shared<Call>();
    call->graph = ScaleGraph(kValues, factor, device);
    call->arguments = {{.buffer = to}, {.buffer = from}};
    ExecuteCall execute;
    execute.wanted = engine_->programs().Resolve({"", call->graph}, {});
    execute.run.arguments = call->arguments;
    auto out = call->status.get_future();
    engine_->runs().Execute(
        call->request, *session, execute,
        [call](absl::StatusOr<ExecuteResult> r) { call->status.set_value(r.status()); });
    return out;
  }
  absl::Status Run(SessionUse& session, const std::string& device, double factor, uint64_t to = 1,
                   uint64_t from = 2) {
    return Begin(session, device, factor, to, from).get();
  }
  absl::Status Read(SessionUse& session, uint64_t handle, std::vector<float>* out = nullptr) {
    std::vector<float> values(kValues);
    absl::Status status = engine_->buffers().Read(
        *session, handle, 0, std::span(reinterpret_cast<char*>(values.data()), kSize));
    if (out != nullptr) *out = values;
    return status;
  }
  // The session that has nothing on the GPU goes on.
  void ExpectTheCpuWorks(double factor) {
    std::vector<float> got;
    EXPECT_EQ(Run(c_, "CPU", factor), absl::OkStatus());
    EXPECT_EQ(Read(c_, 1, &got), absl::OkStatus());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i], static_cast<float>(factor) * static_cast<float>(i + 1));
    }
  }
  // What the engine says of devices that are not ready, but the default one.
  std::string OtherDevices() {
    std::string out;
    for (const ReadyReason& reason : engine_->health().GetReadiness(false).degraded) {
      if (reason.name == "device") out += reason.text;
    }
    return out;
  }
  // New work on the device that was opened again; the old handles stay lost until they are freed.
  void ExpectTheGpuComesBack(double factor) {
    opens_ = true;
    behaviour_ = "nothing";
    ASSERT_TRUE(
        test::Eventually([&] { return engine_->buffers().Create(*a_, 21, kSize, "CUDA").ok(); }));
    EXPECT_THAT(engine_->health().Unready(), Not(HasSubstr("CUDA")));
    EXPECT_EQ(OtherDevices(), "");
    EXPECT_EQ(metrics::DeviceReady({"CUDA:0"}).value(), 1);
    EXPECT_TRUE(absl::IsDataLoss(Read(a_, 1)));
    const uint64_t freed[] = {1, 2};
    a_->buffers().Free(freed);
    for (uint64_t handle : freed) {
      EXPECT_EQ(engine_->buffers().Create(*a_, handle, kSize, "CUDA"), absl::OkStatus());
    }
    EXPECT_EQ(Run(a_, "CUDA", factor), absl::OkStatus());
    EXPECT_EQ(Read(a_, 1), absl::OkStatus());
    ExpectTheCpuWorks(factor);
  }
  void ExpectLost(const absl::Status& status, const std::string& handles) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(StatusText(status), AllOf(HasSubstr("lost with device CUDA:0"),
                                          HasSubstr(Cat(": buffer ", handles, "; free"))));
  }

  tests::FakeCuda fake_;
  std::unique_ptr<devices::cuda::CudaDriver> driver_ =
      devices::cuda::CudaDriver::Create(fake_.Api()).value();
  std::unique_ptr<devices::Registry> cpu_ = *devices::Registry::Create(
      {.devices = "CPU", .memory_limit_bytes = 64 << 20, .cpu_threads = 1});
  std::atomic<bool> opens_ = true;
  std::string behaviour_ = "nothing";
  std::unique_ptr<Engine> engine_;
  SessionUse a_, b_, c_;
};

TEST_F(LostDevicesTest, AFaultIsToldOnceToEverySession) {
  MakeBuffers();
  EXPECT_EQ(Run(a_, "CUDA", 2), absl::OkStatus());
  // Session b waits for a run when the kernel of session a breaks the context.
  behaviour_ = "spin";
  const auto launched = [&] {
    return fake_.Calls("cuLaunchKernel") + fake_.Calls("cuGraphLaunch");
  };
  const int before = launched();
  auto waiting = Begin(b_, "CUDA", 3, 7, 8);
  ASSERT_TRUE(test::Eventually([&] { return launched() > before; }));
  auto& losses = metrics::DeviceLosses({"CUDA:0", "CUDA_ERROR_ILLEGAL_ADDRESS"});
  const uint64_t lost_before = losses.value();
  opens_ = false;
  behaviour_ = "stray";
  const absl::Status told = Run(a_, "CUDA", 4);
  ExpectLost(told, "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
  EXPECT_THAT(StatusText(told), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  ASSERT_EQ(waiting.wait_for(std::chrono::seconds(1)), std::future_status::ready);
  ExpectLost(waiting.get(), "7, 8");
  EXPECT_EQ(losses.value(), lost_before + 1);
  EXPECT_EQ(b_->quota().used(), 0);
  // Once. After that only those handles are refused.
  EXPECT_EQ(engine_->buffers().Create(*b_, 1, kSize, "CPU"), absl::OkStatus());
  const absl::Status later = Read(b_, 7);
  EXPECT_TRUE(absl::IsDataLoss(later)) << later;
  EXPECT_THAT(StatusText(later),
              AllOf(HasSubstr("buffer 7 was lost with device CUDA:0"), Not(HasSubstr("8"))));
  EXPECT_TRUE(absl::IsDataLoss(engine_->buffers().OpenUpload(*b_, 7, kSize, "CPU").status()));
  EXPECT_TRUE(absl::IsDataLoss(engine_->buffers().Write(*b_, 7, 0, "1234")));
  EXPECT_TRUE(absl::IsDataLoss(Run(b_, "CPU", 5, 7, 1)));
  EXPECT_EQ(Run(b_, "CPU", 5, 2, 1), absl::OkStatus());
  ExpectTheCpuWorks(6);
  // Not ready until it is opened again.
  EXPECT_THAT(engine_->health().Unready(), HasSubstr("CUDA:0 is lost"));
  EXPECT_EQ(OtherDevices(), "");
  for (const bool reopen : {false, true}) {
    EXPECT_THAT(engine_->health().ReadyDevices(reopen),
                ElementsAre(Pair("CUDA:0", false), Pair("CPU:0", true)));
  }
  EXPECT_EQ(metrics::DeviceReady({"CUDA:0"}).value(), 0);
  EXPECT_TRUE(absl::IsUnavailable(engine_->buffers().Create(*a_, 20, kSize, "CUDA")));
  EXPECT_TRUE(absl::IsUnavailable(Run(c_, "CUDA", 2, 11, 12)));
  fake_.ReleaseHanging();  // a reset would wait for the kernel
  ExpectTheGpuComesBack(7);
}

// The health service asks so: a device comes back although no session uses it.
TEST_F(LostDevicesTest, AskingForReadyDevicesOpensALostOne) {
  MakeBuffers();
  behaviour_ = "trap";
  EXPECT_TRUE(absl::IsDataLoss(Run(a_, "CUDA", 2)));
  EXPECT_TRUE(
      test::Eventually([&] { return engine_->health().ReadyDevices(true).front().second; }));
  EXPECT_EQ(OtherDevices(), "");
}

// A session that makes no call while the device is lost hears of it in its next call, and its
// memory is free before that.
TEST_F(LostDevicesTest, AnIdleSessionIsToldLater) {
  MakeBuffers();
  behaviour_ = "trap";
  EXPECT_TRUE(absl::IsDataLoss(Run(a_, "CUDA", 2)));
  EXPECT_EQ(b_->quota().used(), 0);
  behaviour_ = "nothing";
  ASSERT_TRUE(
      test::Eventually([&] { return engine_->buffers().Create(*a_, 20, kSize, "CUDA").ok(); }));
  ExpectLost(Run(b_, "CPU", 3, 1, 7), "7, 8");
  EXPECT_TRUE(absl::IsDataLoss(Read(b_, 7)));
  const uint64_t freed[] = {7, 8};
  b_->buffers().Free(freed);
  EXPECT_TRUE(absl::IsNotFound(Read(b_, 7)));
  ExpectTheGpuComesBack(4);
}

TEST_F(LostDevicesTest, AKernelThatDoesNotStopLosesTheDevice) {
  Start("200ms");
  MakeBuffers();
  auto& losses = metrics::DeviceLosses({"CUDA:0", "stuck"});
  const uint64_t lost_before = losses.value();
  behaviour_ = "hang";
  auto hanging = Begin(a_, "CUDA", 2);
  ExpectTheCpuWorks(3);
  ASSERT_EQ(hanging.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  const absl::Status told = hanging.get();
  ExpectLost(told, "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
  EXPECT_THAT(StatusText(told),
              AllOf(HasSubstr("does not stop within 20 ms"), HasSubstr("limits.run_ms (200 ms)")));
  ExpectLost(Read(b_, 7), "7, 8");
  EXPECT_EQ(losses.value(), lost_before + 1);
  // The kernel still runs, so the device does not open.
  EXPECT_TRUE(absl::IsUnavailable(engine_->buffers().Create(*b_, 1, kSize, "CUDA")));
  ExpectTheCpuWorks(4);
  fake_.ReleaseHanging();
  ExpectTheGpuComesBack(5);
}

// The first run of a program measures its kernels one by one; the later ones replay a graph.
TEST_F(LostDevicesTest, AReplayedGraphIsStoppedAtTheLimit) {
  Start("200ms");
  MakeBuffers();
  behaviour_ = "spin";
  fake_.LetPass(true);
  EXPECT_EQ(Run(a_, "CUDA", 2), absl::OkStatus());
  EXPECT_EQ(Run(a_, "CUDA", 2), absl::OkStatus());
  EXPECT_EQ(fake_.Calls("cuGraphLaunch"), 1);
  fake_.LetPass(false);
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status told = Run(a_, "CUDA", 2);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(fake_.Calls("cuGraphLaunch"), 2);
  EXPECT_TRUE(absl::IsResourceExhausted(told)) << told;
  EXPECT_THAT(StatusText(told),
              AllOf(HasSubstr("limits.run_ms (200 ms)"), HasSubstr("running kernel ")));
  EXPECT_GE(took, std::chrono::milliseconds(200));
  // The device and the other session have nothing of it.
  EXPECT_EQ(OtherDevices(), "");
  EXPECT_EQ(Read(b_, 7), absl::OkStatus());
  fake_.LetPass(true);
  EXPECT_EQ(Run(b_, "CUDA", 2, 7, 8), absl::OkStatus());
  EXPECT_EQ(fake_.Calls("cuGraphLaunch"), 3);
}

TEST_F(LostDevicesTest, AReplayedGraphThatDoesNotStopLosesTheDevice) {
  Start("200ms");
  MakeBuffers();
  behaviour_ = "hang";
  fake_.LetPass(true);
  EXPECT_EQ(Run(a_, "CUDA", 2), absl::OkStatus());
  fake_.LetPass(false);
  opens_ = false;
  auto hanging = Begin(a_, "CUDA", 2);
  ASSERT_TRUE(test::Eventually([&] { return fake_.Calls("cuGraphLaunch") == 1; }));
  ExpectTheCpuWorks(3);
  ASSERT_EQ(hanging.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  const absl::Status told = hanging.get();
  ExpectLost(told, "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
  EXPECT_THAT(StatusText(told),
              AllOf(HasSubstr("limits.run_ms (200 ms)"), HasSubstr("running kernel ")));
  ExpectLost(Read(b_, 7), "7, 8");
  EXPECT_THAT(engine_->health().ReadyDevices(false),
              ElementsAre(Pair("CUDA:0", false), Pair("CPU:0", true)));
  EXPECT_EQ(metrics::DeviceReady({"CUDA:0"}).value(), 0);
  ExpectTheCpuWorks(4);
  fake_.ReleaseHanging();
  ExpectTheGpuComesBack(5);
}

TEST_F(LostDevicesTest, CopiesOfASessionGoOnWhileAnotherOneComputes) {
  MakeBuffers();
  behaviour_ = "spin";
  const int before = fake_.Calls("cuLaunchKernel");
  auto computing = Begin(a_, "CUDA", 2);
  ASSERT_TRUE(test::Eventually([&] { return fake_.Calls("cuLaunchKernel") > before; }));
  const std::vector<float> values(kValues, 2.5f);
  std::vector<float> got;
  EXPECT_EQ(
      engine_->buffers().Write(*b_, 7, 0, {reinterpret_cast<const char*>(values.data()), kSize}),
      absl::OkStatus());
  EXPECT_EQ(Read(b_, 7, &got), absl::OkStatus());
  EXPECT_EQ(got, values);
  EXPECT_EQ(computing.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  fake_.ReleaseHanging();
  EXPECT_EQ(computing.get(), absl::OkStatus());
}

TEST_F(LostDevicesTest, AnErrorOfACopyIsOfTheSessionThatCopies) {
  MakeBuffers();
  const std::string data(kSize, 'x');
  std::vector<float> got;
  fake_.Fail("cuMemcpyHtoDAsync_v2", devices::cuda::kOutOfMemory);
  const absl::Status up = engine_->buffers().Write(*a_, 1, 0, data);
  EXPECT_TRUE(absl::IsResourceExhausted(up)) << up;
  fake_.Fail("cuMemcpyDtoHAsync_v2", devices::cuda::kOutOfMemory);
  const absl::Status down = Read(a_, 2);
  EXPECT_TRUE(absl::IsResourceExhausted(down)) << down;
  // Nothing is lost, for nobody.
  EXPECT_EQ(OtherDevices(), "");
  EXPECT_EQ(engine_->buffers().Write(*b_, 7, 0, data), absl::OkStatus());
  EXPECT_EQ(engine_->buffers().Write(*a_, 1, 0, data), absl::OkStatus());
  EXPECT_EQ(Read(a_, 1, &got), absl::OkStatus());
  EXPECT_EQ(std::memcmp(got.data(), data.data(), kSize), 0);
}

TEST_F(LostDevicesTest, ALossThatACopyFindsIsToldToEverySession) {
  MakeBuffers();
  auto& losses = metrics::DeviceLosses({"CUDA:0", "CUDA_ERROR_LAUNCH_TIMEOUT"});
  const uint64_t lost_before = losses.value();
  behaviour_ = "spin";
  const int before = fake_.Calls("cuLaunchKernel");
  auto computing = Begin(b_, "CUDA", 2, 7, 8);
  ASSERT_TRUE(test::Eventually([&] { return fake_.Calls("cuLaunchKernel") > before; }));
  opens_ = false;
  fake_.Fail("cuMemcpyHtoDAsync_v2", devices::cuda::kLaunchTimeout);
  ExpectLost(engine_->buffers().Write(*a_, 1, 0, std::string(kSize, 'x')),
             "1, 2, 3, 4, 5, 6, 7, 8 and 2 more");
  ASSERT_EQ(computing.wait_for(std::chrono::seconds(1)), std::future_status::ready);
  ExpectLost(computing.get(), "7, 8");
  EXPECT_EQ(losses.value(), lost_before + 1);
  EXPECT_EQ(metrics::DeviceReady({"CUDA:0"}).value(), 0);
  ExpectTheCpuWorks(3);
  fake_.ReleaseHanging();
  ExpectTheGpuComesBack(4);
}

TEST_F(LostDevicesTest, NoMemoryCostsOneSessionAnError) {
  MakeBuffers();
  fake_.Fail("cuMemAlloc_v2", devices::cuda::kOutOfMemory, 0, 100);
  const absl::Status none = engine_->buffers().Create(*a_, 30, 32 << 20, "CUDA");
  EXPECT_TRUE(absl::IsResourceExhausted(none)) << none;
  EXPECT_TRUE(absl::IsNotFound(Read(a_, 30)));
  EXPECT_EQ(Read(a_, 1), absl::OkStatus());
  EXPECT_EQ(Read(b_, 7), absl::OkStatus());
  EXPECT_EQ(Run(b_, "CUDA", 2, 7, 8), absl::OkStatus());
  EXPECT_THAT(engine_->health().Unready(), Not(HasSubstr("CUDA")));
  ExpectTheCpuWorks(3);
}

TEST_F(LostDevicesTest, TheDaemonStartsWithoutADriver) {
  opens_ = false;
  Start();
  EXPECT_THAT(engine_->health().Unready(), HasSubstr("libcuda.so.1 is not there"));
  EXPECT_EQ(OtherDevices(), "");
  EXPECT_EQ(metrics::DeviceReady({"CUDA:0"}).value(), 0);
  const auto list = engine_->devices().List();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_THAT(StatusText(list[0].status), HasSubstr("libcuda.so.1 is not there"));
  EXPECT_TRUE(list[1].status.ok());
  EXPECT_TRUE(absl::IsUnavailable(engine_->buffers().Create(*a_, 1, kSize, "")));
  ASSERT_TRUE(*engine_->buffers().OpenUpload(*c_, 2, kSize, "CPU"));
  EXPECT_EQ(Run(c_, "CPU", 2), absl::OkStatus());
  opens_ = true;
  EXPECT_EQ(engine_->buffers().Create(*a_, 1, kSize, ""), absl::OkStatus());
  EXPECT_THAT(engine_->health().Unready(), Not(HasSubstr("CUDA")));
}

}  // namespace
}  // namespace uopd::engine
