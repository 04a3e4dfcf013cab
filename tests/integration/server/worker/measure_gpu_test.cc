// SPDX-License-Identifier: MIT
// Job "measure" on a GPU, which the worker opens itself: the fake of NVIDIA's driver, with kernels
// that fault and that hang. What they break is the worker's; the GPU of this process goes on.
#include "core/base/text.h"
#include "devices/cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/worker/job/measure_job.h"
#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/eventually.h"
#include "tests/unit/server/worker/workers.h"

namespace uopd::worker {
namespace {

using devices::cuda::CudaDevice;
using devices::cuda::CudaDriver;
using testing::HasSubstr;

// A driver with its devices. Its process has one at a time.
struct FakeGpu {
  tests::FakeCuda fake{{.devices = 1}};
  std::unique_ptr<CudaDriver> driver = CudaDriver::Create(fake.Api()).value();

  absl::StatusOr<std::shared_ptr<devices::Device>> Open(size_t limit_bytes) {
    return CudaDevice::Open({.memory_limit_bytes = limit_bytes,
                             .ptx = true,
                             .driver = driver.get(),
                             .ptxc = "/nowhere/uopd-ptxc"});
  }
};

class MeasureGpuTest : public testing::Test {
 protected:
  // What a stream has queued is destroyed on a thread of the device.
  void TearDown() override {
    device_ = nullptr;
    EXPECT_TRUE(test::Eventually([&] { return gpu_.fake.Live().empty(); }));
  }
  // A kernel of two buffers and no variable.
  static Job Request(const std::string& behaviour,
                     std::chrono::milliseconds limit = std::chrono::seconds(20),
                     uint64_t bytes = 64) {
    MeasureRequest request;
    request.device = "CUDA:0";
    request.object = tests::FakeCuda::Cubin(Cat("k ", behaviour, " 3"));
    request.entry = "k";
    request.buffers = {{ir::Dtype::I32, bytes, false, true}, {ir::Dtype::I32, bytes, true, false}};
    request.runs = 2;
    return {kGpu, request.Encode(), limit};
  }
  static Supervisor::Options Pool() {
    Supervisor::Options out = PoolOf(1);
    out.setup.devices = "CUDA:0";
    out.setup.device_memory_bytes = size_t{8} << 20;
    return out;
  }
  // Whether the GPU of this process runs a kernel.
  void ExpectReady() {
    EXPECT_TRUE(device_->status().ok()) << device_->status();
    auto kernel = device_->Load({CodeFormat::kPtx, "k", "k nothing 1", {0, 0}});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    auto stream = device_->NewStream().value();
    EXPECT_TRUE(stream->Launch(**kernel, {}, {}, {}).ok());
    EXPECT_TRUE(stream->Synchronize().ok());
  }

  FakeGpu gpu_;
  std::shared_ptr<devices::Device> device_ = gpu_.Open(0).value();
  Supervisor pool_{Forks(), Pool()};
};

TEST_F(MeasureGpuTest, MeasuresOnADeviceOfItsOwn) {
  const JobResult result = pool_.Run(Request("nothing"));
  ASSERT_EQ(result.outcome, JobResult::kDone) << result.status;
  EXPECT_EQ(MeasureAnswer::Decode(result.bytes)->runs, 3);
  EXPECT_EQ(gpu_.fake.Calls("cuLaunchKernel"), 0);
}

TEST_F(MeasureGpuTest, AFaultIsBlamedOnTheKernelAndCostsAWorker) {
  for (const char* behaviour : {"stray", "trap"}) {
    const JobResult result = pool_.Run(Request(behaviour));
    EXPECT_EQ(result.outcome, JobResult::kCrashed) << result.status;
    EXPECT_TRUE(result.quarantined);
    EXPECT_FALSE(result.passing);
    EXPECT_THAT(result.status.message(), HasSubstr("The device CUDA:0 is lost"));
    EXPECT_TRUE(pool_.Run(Request(behaviour)).refused);
    // The next kernel is measured at once, by another worker on a context of its own.
    EXPECT_EQ(pool_.Run(Request("nothing")).outcome, JobResult::kDone);
  }
  EXPECT_EQ(pool_.stats().crashed, 2);
  EXPECT_EQ(pool_.stats().spawned, 3);
  ExpectReady();
}

TEST_F(MeasureGpuTest, AKernelThatHangsTimesOut) {
  const JobResult result = pool_.Run(Request("hang", std::chrono::milliseconds(300)));
  EXPECT_EQ(result.outcome, JobResult::kTimedOut) << result.status;
  EXPECT_TRUE(result.quarantined);
  EXPECT_EQ(pool_.Run(Request("nothing")).outcome, JobResult::kDone);
  ExpectReady();
}

TEST_F(MeasureGpuTest, MemoryIsLimitedAndNotBlamed) {
  const JobResult result =
      pool_.Run(Request("nothing", std::chrono::seconds(20), uint64_t{6} << 20));
  EXPECT_EQ(result.outcome, JobResult::kFailed);
  EXPECT_TRUE(absl::IsResourceExhausted(result.status)) << result.status;
  EXPECT_FALSE(result.quarantined);
  EXPECT_EQ(pool_.Run(Request("nothing")).outcome, JobResult::kDone);
  EXPECT_EQ(pool_.stats().spawned, 1);
}

}  // namespace

absl::StatusOr<std::string> MeasureOnFakeGpu(WorkerState& state, std::string_view payload) {
  static auto* const gpu = new FakeGpu;
  static auto* const mine =
      new WorkerState(state.setup(), [limit = state.setup().device_memory_bytes](
                                         const devices::DeviceName&) { return gpu->Open(limit); });
  auto answer = RunMeasureJob(*mine, payload);
  if (mine->broken()) state.SetBroken();
  return answer;
}

}  // namespace uopd::worker
