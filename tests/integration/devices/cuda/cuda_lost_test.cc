// SPDX-License-Identifier: MIT
// Devices that are lost: by a kernel that breaks the context, or by one that does not stop.
#include "devices/gpu/stop_words.h"
#include "devices/registry.h"
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;

class CudaLostTest : public CudaTest {
 protected:
  // Resets what the lost context has left, as the registry does.
  void Recover() {
    stream_ = nullptr;
    ASSERT_TRUE(test::Eventually([&] {  // what still runs ends soon
      auto again = CudaDevice::Open(Options());
      if (again.ok()) device_ = *std::move(again);
      return again.ok();
    }));
  }
};

TEST_F(CudaLostTest, AStrayAccessLosesTheDevice) {
  Open();
  auto stray = Kernel("stray"), nothing = Kernel("nothing");
  auto buffer = Allocate(64);
  auto visible = Allocate(64, MemoryKind::kHostVisible);
  auto other = device_->NewStream().value();
  auto done = device_->NewSemaphore().value();
  std::vector<std::byte> got(64, std::byte{7});
  ASSERT_TRUE(Launch(*stream_, *stray, *buffer).ok());
  stream_->CopyOut(*buffer, 0, got).IgnoreError();
  ASSERT_TRUE(test::Eventually([&] {
    stream_->Record(done, 1).IgnoreError();
    return !done->failure().ok();
  }));
  EXPECT_CODE(done->failure(), kUnavailable);
  const absl::Status status = stream_->Synchronize();
  EXPECT_CODE(status, kUnavailable);
  EXPECT_THAT(StatusText(status), HasSubstr("CUDA:0 is lost"));
  EXPECT_THAT(StatusText(status), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_THAT(got, testing::Each(std::byte{7}));
  // Every later call fails at once, and calls the driver no more.
  EXPECT_EQ(device_->status(), status);
  EXPECT_CODE(device_->Allocate(4, MemoryKind::kDevice).status(), kUnavailable);
  EXPECT_CODE(device_->Allocate(4, MemoryKind::kHostVisible).status(), kUnavailable);
  EXPECT_CODE(device_->NewStream().status(), kUnavailable);
  EXPECT_CODE(device_->NewSemaphore().status(), kUnavailable);
  EXPECT_CODE(device_->Load({CodeFormat::kPtx, "k", "k nothing 4", {2, 1}}).status(), kUnavailable);
  EXPECT_CODE(device_->compiler().Compile("k nothing 4").status(), kUnavailable);
  EXPECT_CODE(device_->Record(0, {}).status(), kUnavailable);
  EXPECT_CODE(other->Fill(*buffer, 0, 4, std::byte{0}), kUnavailable);
  EXPECT_CODE(Launch(*other, *nothing, *buffer), kUnavailable);
  EXPECT_TRUE(other->Synchronize().ok());  // it had nothing to do
  // The objects of the lost device are safe to use and to drop, before the reset and after it.
  const auto lost = device_;
  stray = nullptr;
  buffer = nullptr;
  Recover();
  EXPECT_NE(device_, lost);
  EXPECT_TRUE(device_->status().ok());
  EXPECT_CODE(lost->status(), kUnavailable);
  visible->host_data()[63] = std::byte{1};
  stream_ = device_->NewStream().value();
  auto fresh = Allocate(4);
  ASSERT_TRUE(stream_->Fill(*fresh, 0, 4, std::byte{0}).ok());
  ASSERT_TRUE(Launch(*stream_, *Kernel("adder"), *fresh).ok());
  EXPECT_EQ(ReadInt(*fresh), 1);
}

TEST_F(CudaLostTest, AllThatIsQueuedFailsWithTheDevice) {
  Open();
  auto trap = Kernel("trap"), nothing = Kernel("nothing");
  auto buffer = Allocate(64);
  auto gate = device_->NewSemaphore().value(), done = device_->NewSemaphore().value();
  auto other = device_->NewStream().value();
  ASSERT_TRUE(other->Wait(gate, 1).ok());
  ASSERT_TRUE(Launch(*other, *nothing, *buffer).ok());
  ASSERT_TRUE(other->Record(done, 1).ok());
  ASSERT_TRUE(Launch(*stream_, *trap, *buffer).ok());
  EXPECT_THAT(StatusText(stream_->Synchronize()), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  gate->Signal(1);
  EXPECT_CODE(other->Synchronize(), kUnavailable);
  EXPECT_CODE(done->failure(), kUnavailable);
  other = nullptr;
  Recover();
}

TEST_F(CudaLostTest, AnyCallMayBringTheNews) {
  for (const char* call : {"cuMemAlloc_v2", "cuEventRecord", "cuEventQuery", "cuCtxSetCurrent",
                           "cuLaunchKernel", "cuStreamCreate", "cuLinkCreate_v2"}) {
    Open();
    auto kernel = Kernel("nothing");
    auto buffer = Allocate(64);
    fake_->Fail(call, kLaunchTimeout);
    ASSERT_TRUE(test::Eventually([&] {
      Launch(*stream_, *kernel, *buffer).IgnoreError();
      stream_->Synchronize().IgnoreError();
      device_->Allocate(1 << 20, MemoryKind::kDevice).status().IgnoreError();
      device_->NewStream().status().IgnoreError();
      device_->compiler().Compile("k nothing 4").status().IgnoreError();
      return !device_->status().ok();
    })) << call;
    EXPECT_THAT(StatusText(device_->status()), HasSubstr("CUDA_ERROR_LAUNCH_TIMEOUT"));
    EXPECT_THAT(StatusText(device_->status()), HasSubstr(call));
    stream_ = nullptr;
    kernel = nullptr;
    buffer = nullptr;
    Recover();
    device_ = nullptr;
  }
}

TEST_F(CudaLostTest, TheOtherDeviceGoesOn) {
  Open();
  CudaOptions options = Options();
  options.index = 1;
  auto second = CudaDevice::Open(options).value();
  auto stream = second->NewStream().value();
  auto there = second->Allocate(4, MemoryKind::kDevice).value();
  auto buffer = Allocate(4);
  ASSERT_TRUE(Launch(*stream_, *Kernel("trap"), *buffer).ok());
  EXPECT_CODE(stream_->Synchronize(), kUnavailable);
  EXPECT_TRUE(stream->Fill(*there, 0, 4, std::byte{1}).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_TRUE(second->status().ok());
  buffer = nullptr;
  Recover();
}

TEST_F(CudaLostTest, AKernelThatDoesNotStopLosesTheDevice) {
  CudaOptions options = Options();
  options.stop_grace = std::chrono::milliseconds(20);
  Open(options);
  auto hang = Kernel("hang"), spin = Kernel("spin");
  auto buffer = Allocate(64);
  auto stop = std::make_shared<StopFlag>(), other_stop = std::make_shared<StopFlag>();
  auto other = device_->NewStream().value();
  ASSERT_TRUE(Launch(*other, *spin, *buffer, other_stop).ok());
  ASSERT_TRUE(Launch(*stream_, *hang, *buffer, stop).ok());
  stop->Stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(device_->status().ok());  // it may wait behind the kernel that nobody has stopped
  other_stop->Stop();
  EXPECT_CODE(other->Synchronize(), kCancelled);
  const absl::Status status = stream_->Synchronize();
  EXPECT_CODE(status, kUnavailable);
  EXPECT_THAT(StatusText(status), HasSubstr("does not stop within 20 ms"));
  // A reset would wait for the kernel.
  const absl::Status busy = CudaDevice::Open(Options()).status();
  EXPECT_CODE(busy, kUnavailable);
  EXPECT_THAT(StatusText(busy), HasSubstr("still runs"));
  EXPECT_EQ(fake_->Calls("cuDevicePrimaryCtxReset_v2"), 0);
  fake_->ReleaseHanging();
  hang = spin = nullptr;
  buffer = nullptr;
  other = nullptr;
  ASSERT_TRUE(test::Eventually([&] {
    auto again = CudaDevice::Open(Options());
    if (!again.ok()) return false;
    stream_ = nullptr;
    device_ = *std::move(again);
    return true;
  }));
}

// The registry hands out the lost device until it is tried again.
TEST_F(CudaLostTest, TheRegistryOpensItAgain) {
  RegistryOptions options{.devices = "CUDA", .retry = std::chrono::hours(1)};
  int opened = 0;
  options.open = [&](const DeviceName&) -> absl::StatusOr<std::shared_ptr<Device>> {
    ++opened;
    return CudaDevice::Open(Options());
  };
  for (const bool soon : {false, true}) {
    opened = 0;
    if (soon) options.retry = std::chrono::milliseconds(0);
    auto registry = Registry::Create(options).value();
    device_ = std::static_pointer_cast<CudaDevice>(registry->Get("").value());
    stream_ = device_->NewStream().value();
    {
      auto buffer = Allocate(4);
      ASSERT_TRUE(Launch(*stream_, *Kernel("trap"), *buffer).ok());
      EXPECT_CODE(stream_->Synchronize(), kUnavailable);
    }
    stream_ = nullptr;
    if (soon) {
      EXPECT_TRUE(test::Eventually([&] { return registry->List()[0].status.ok(); }));
      EXPECT_GE(opened, 2);
    } else {
      EXPECT_CODE(registry->List()[0].status, kUnavailable);
      EXPECT_EQ(opened, 1);
    }
    EXPECT_EQ(registry->Get("").value() == device_, !soon);
    EXPECT_TRUE(registry->Settled());
    registry = nullptr;
    if (!soon) Recover();
    device_ = nullptr;
  }
}

// The other device is lost only after the time that this one gives a kernel. Then what waited for
// it begins, and has that time for itself.
TEST_F(CudaLostTest, WhatWaitedForAnotherDeviceHasTheGraceForItself) {
  const auto context = driver_->OpenContext(0).value();
  auto words = std::make_shared<gpu::StopWords>(context, std::chrono::seconds(1));
  auto flag = std::make_shared<StopFlag>();
  context->AddWaitElsewhere(1);
  auto lease = words->Take(flag).value();
  // On a busy machine a sleep may last until the context is rightly lost.
  using Clock = std::chrono::steady_clock;
  const auto lost_before = [&](Clock::time_point end) {
    return context->lost() && Clock::now() < end;
  };
  auto end = Clock::now() + std::chrono::seconds(2);
  flag->Stop();
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
  EXPECT_FALSE(lost_before(end));
  end = Clock::now() + std::chrono::milliseconds(900);
  context->AddWaitElsewhere(-1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(lost_before(end));
  EXPECT_TRUE(test::Eventually([&] { return context->lost(); }));
  EXPECT_THAT(StatusText(context->status()), HasSubstr("a kernel does not stop within 1000 ms"));
  lease = nullptr;
  words = nullptr;
  Recover();
}

}  // namespace
}  // namespace uopd::devices::cuda
