// SPDX-License-Identifier: MIT
// Recorded sequences as CUDA graphs.
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

class CudaGraphTest : public CudaTest {
 protected:
  // b += a + 1, then b += a + 2, by kernels of this behaviour.
  std::shared_ptr<const RecordedProgram> Twice(const std::string& behaviour) {
    auto kernel = Kernel(behaviour);
    return device_
        ->Record(2, {{kernel, {}, {{0, 0}, {1, 0}}, {1}}, {kernel, {}, {{0, 0}, {1, 0}}, {2}}})
        .value();
  }
  std::shared_ptr<Buffer> Filled(std::byte value) {
    auto buffer = Allocate(4);
    EXPECT_TRUE(stream_->Fill(*buffer, 0, 4, value).ok());
    return buffer;
  }
  absl::Status Replay(const RecordedProgram& program, Buffer& a, Buffer& b,
                      const std::shared_ptr<const StopFlag>& stop = nullptr) {
    Buffer* const buffers[] = {&a, &b};
    return stream_->Replay(program, buffers, {}, stop);
  }
};

TEST_F(CudaGraphTest, LaunchesAGraph) {
  Open();
  auto program = Twice("adder");
  auto one = Filled(std::byte{0}), sum = Filled(std::byte{0}), other = Filled(std::byte{1});
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Replay(*program, *one, *sum).ok());
    EXPECT_EQ(ReadInt(*sum), 3 * i);
  }
  EXPECT_EQ(fake_->Calls("cuGraphLaunch"), 3);
  EXPECT_EQ(fake_->Calls("cuGraphInstantiateWithFlags"), 1);
  EXPECT_EQ(fake_->Calls("cuLaunchKernel"), 0);
  EXPECT_EQ(fake_->Calls("cuGraphExecKernelNodeSetParams_v2"), 0);
  ASSERT_TRUE(Replay(*program, *one, *other).ok());
  ASSERT_TRUE(Replay(*program, *one, *sum).ok());
  EXPECT_EQ(ReadInt(*other), 0x01010101 + 3);
  EXPECT_EQ(ReadInt(*sum), 12);
  EXPECT_EQ(fake_->Calls("cuGraphExecKernelNodeSetParams_v2"), 4);
}

TEST_F(CudaGraphTest, TimesOfKernelsNeedSingleLaunches) {
  Open();
  auto program = Twice("adder");
  auto one = Filled(std::byte{0}), sum = Filled(std::byte{0});
  Buffer* const buffers[] = {one.get(), sum.get()};
  std::vector<int64_t> durations_ns(2, -1);
  ASSERT_TRUE(stream_->Replay(*program, buffers, durations_ns).ok());
  EXPECT_EQ(ReadInt(*sum), 3);
  EXPECT_GE(durations_ns[0], 0);
  EXPECT_GE(durations_ns[1], 0);
  EXPECT_EQ(fake_->Calls("cuGraphLaunch"), 0);
  EXPECT_EQ(fake_->Calls("cuLaunchKernel"), 2);
}

TEST_F(CudaGraphTest, DoesWithoutGraphs) {
  CudaOptions options = Options();
  options.graphs = false;
  Open(options);
  auto program = Twice("adder");
  auto one = Filled(std::byte{0}), sum = Filled(std::byte{0});
  ASSERT_TRUE(Replay(*program, *one, *sum).ok());
  EXPECT_EQ(ReadInt(*sum), 3);
  EXPECT_EQ(fake_->Calls("cuGraphCreate"), 0);
  CudaApi old = tests::FakeCuda::Api();
  EXPECT_TRUE(CudaDriver::Create(old).value()->api().has_graphs());
  old.cuGraphLaunch = nullptr;
  EXPECT_FALSE(CudaDriver::Create(old).value()->api().has_graphs());
}

TEST_F(CudaGraphTest, EveryCallMayFailOnce) {
  Open();
  auto program = Twice("adder");
  auto one = Filled(std::byte{0}), sum = Filled(std::byte{0}), other = Filled(std::byte{0});
  for (const char* call : {"cuGraphCreate", "cuGraphAddKernelNode_v2",
                           "cuGraphInstantiateWithFlags", "cuGraphLaunch"}) {
    fake_->Fail(call, kInvalidValue);
    ASSERT_TRUE(Replay(*program, *one, *sum).ok());
    const absl::Status status = stream_->Synchronize();
    EXPECT_CODE(status, kInternal);
    EXPECT_THAT(StatusText(status), testing::HasSubstr(call));
    EXPECT_EQ(ReadInt(*sum), 0);
  }
  ASSERT_TRUE(Replay(*program, *one, *sum).ok());
  EXPECT_EQ(ReadInt(*sum), 3);
  // The second node fails to take other arguments: the next replay sets both again.
  fake_->Fail("cuGraphExecKernelNodeSetParams_v2", kInvalidValue, 1);
  ASSERT_TRUE(Replay(*program, *one, *other).ok());
  EXPECT_CODE(stream_->Synchronize(), kInternal);
  ASSERT_TRUE(Replay(*program, *one, *sum).ok());
  EXPECT_EQ(ReadInt(*sum), 6);
  EXPECT_EQ(ReadInt(*other), 0);
}

TEST_F(CudaGraphTest, StopsInTheMiddle) {
  Open();
  auto program = Twice("spin");
  auto one = Filled(std::byte{0}), sum = Filled(std::byte{0});
  auto stop = std::make_shared<StopFlag>();
  ASSERT_TRUE(Replay(*program, *one, *sum, stop).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  stop->Stop();
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_EQ(fake_->Calls("cuGraphLaunch"), 1);
}

// Each replay has the stop word of its own flag, also when the flag before it was stopped.
TEST_F(CudaGraphTest, EveryReplayHasItsOwnStopWord) {
  Open();
  auto program = Twice("spin");
  auto one = Filled(std::byte{0}), sum = Filled(std::byte{0});
  for (int replay = 0; replay < 3; ++replay) {
    auto stop = std::make_shared<StopFlag>();
    auto done = device_->NewSemaphore().value();
    ASSERT_TRUE(Replay(*program, *one, *sum, stop).ok());
    ASSERT_TRUE(stream_->Record(done, 1).ok());
    EXPECT_CODE(done->Wait(1, std::chrono::steady_clock::now() + std::chrono::milliseconds(20)),
                kDeadlineExceeded);
    stop->Stop();
    EXPECT_CODE(stream_->Synchronize(), kCancelled);
  }
  EXPECT_EQ(fake_->Calls("cuGraphLaunch"), 3);
  EXPECT_TRUE(device_->status().ok());
}

TEST_F(CudaGraphTest, AGraphThatDoesNotStopLosesTheDevice) {
  CudaOptions options = Options();
  options.stop_grace = std::chrono::milliseconds(20);
  Open(options);
  {
    auto program = Twice("hang");
    auto one = Filled(std::byte{0}), sum = Filled(std::byte{0});
    auto stop = std::make_shared<StopFlag>();
    ASSERT_TRUE(Replay(*program, *one, *sum, stop).ok());
    stop->Stop();
    const absl::Status status = stream_->Synchronize();
    EXPECT_CODE(status, kUnavailable);
    EXPECT_THAT(StatusText(status), testing::HasSubstr("CUDA:0 is lost: a kernel does not stop"));
    EXPECT_EQ(fake_->Calls("cuGraphLaunch"), 1);
  }
  fake_->ReleaseHanging();
  stream_ = nullptr;
  EXPECT_TRUE(test::Eventually([&] { return CudaDevice::Open(Options()).ok(); }));
}

}  // namespace
}  // namespace uopd::devices::cuda
