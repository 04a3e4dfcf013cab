// SPDX-License-Identifier: MIT
// A stream whose chip waits for another device, when that device is lost: its kernel never ends, so
// the chip waits for ever. The stream fails with the loss and works on, its own device is not lost,
// and memory that the chip may still write is not used again.
#include <algorithm>

#include "devices/gpu/gpu_memory.h"
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr size_t kLostBytes = (size_t{9} << 20) + 4;

// The parameter: whether the chips reach each other.
class CudaWaitInVainTest : public CudaTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    Start({.peers = GetParam()});
    CudaOptions options = Options();
    options.stop_grace = std::chrono::milliseconds(50);
    Open(options);
    options.index = 1;
    second_ = CudaDevice::Open(options).value();
    other_ = second_->NewStream().value();
    adder_ = second_->Load({CodeFormat::kPtx, "k", "k adder 4", {2, 1}}).value();
  }
  void TearDown() override {
    adder_ = nullptr;
    other_ = nullptr;
    stream_ = nullptr;
    fake_->ReleaseHanging();
    for (int index = 0; index < 2; ++index) {  // resets what the lost one has left
      CudaOptions options = Options();
      options.index = index;
      EXPECT_TRUE(test::Eventually([&] { return CudaDevice::Open(options).ok(); }));
    }
    device_ = nullptr;
    second_ = nullptr;
    CudaTest::TearDown();
  }
  std::shared_ptr<Buffer> There(size_t bytes) {
    return second_->Allocate(bytes, MemoryKind::kDevice).value();
  }
  bool InUse(Buffer& buffer) {
    return fake_->InUse(static_cast<gpu::GpuBuffer&>(buffer).address(), buffer.size());
  }
  static void ExpectTheFirstIsLost(const absl::Status& status) {
    EXPECT_CODE(status, kUnavailable);
    EXPECT_THAT(StatusText(status), AllOf(HasSubstr("CUDA:0 is lost"), Not(HasSubstr("CUDA:1"))));
  }

  std::shared_ptr<CudaDevice> second_;
  std::unique_ptr<Stream> other_;
  std::shared_ptr<Executable> adder_;
};

TEST_P(CudaWaitInVainTest, TheOtherDeviceGoesOn) {
  auto from = Allocate(kLostBytes), to = There(kLostBytes), ahead = There(4), kept = There(4);
  auto stop = std::make_shared<StopFlag>();
  auto third = second_->NewStream().value();
  auto copied = second_->NewSemaphore().value();
  int32_t early = 0;
  std::vector<std::byte> never(kLostBytes, std::byte{9});
  ASSERT_TRUE(other_->Fill(*kept, 0, 4, std::byte{1}).ok());
  ASSERT_TRUE(other_->Synchronize().ok());
  ASSERT_TRUE(Launch(*stream_, *Kernel("hang"), *from, stop).ok());
  // What is ahead of the copy is done; then the copy, a kernel that would change its result, and a
  // read of it.
  ASSERT_TRUE(other_->Fill(*ahead, 0, 4, std::byte{3}).ok());
  ASSERT_TRUE(other_->CopyOut(*ahead, 0, std::as_writable_bytes(std::span(&early, 1))).ok());
  ASSERT_TRUE(other_->CopyFrom(*stream_, *from, 0, *to, 0, kLostBytes).ok());
  ASSERT_TRUE(Launch(*other_, *adder_, *to, stop).ok());
  ASSERT_TRUE(other_->CopyOut(*to, 0, never).ok());
  ASSERT_TRUE(other_->Record(copied, 1).ok());
  // A stream that waits for the stream that waits.
  ASSERT_TRUE(third->Wait(copied, 1).ok());
  ASSERT_TRUE(third->Fill(*kept, 0, 4, std::byte{2}).ok());
  stop->Stop();
  ExpectTheFirstIsLost(other_->Synchronize());
  ExpectTheFirstIsLost(third->Synchronize());
  ExpectTheFirstIsLost(stream_->Synchronize());
  ExpectTheFirstIsLost(copied->failure());
  EXPECT_TRUE(second_->status().ok()) << second_->status();
  EXPECT_EQ(early, 0x03030303);
  EXPECT_TRUE(std::ranges::all_of(never, [](std::byte b) { return b == std::byte{9}; }));
  // Both streams work on.
  int32_t value = 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  ASSERT_TRUE(Launch(*other_, *adder_, *ahead).ok());
  ASSERT_TRUE(other_->CopyOut(*ahead, 0, bytes).ok());
  ASSERT_TRUE(other_->Synchronize().ok());
  EXPECT_EQ(value, 0x06060607);
  // The chip may still write the memory of what was given up. So nothing may use it, and nobody
  // gets it.
  EXPECT_CODE(other_->Fill(*to, 0, 4, std::byte{1}), kUnavailable);
  EXPECT_CODE(other_->CopyIn(never, *to, 0), kUnavailable);
  EXPECT_CODE(other_->CopyOut(*to, 0, never), kUnavailable);
  EXPECT_CODE(Launch(*other_, *adder_, *to), kUnavailable);
  // In pieces, the copy was not given on as a whole; so the third stream has waited on the host,
  // and its fill is not on the chip.
  EXPECT_EQ(third->Fill(*kept, 0, 4, std::byte{1}).ok(), !GetParam());
  to = nullptr;
  EXPECT_GE(second_->memory().used_bytes, kLostBytes);
  for (int i = 0; i < 3; ++i) {
    auto fresh = There(kLostBytes);
    EXPECT_FALSE(InUse(*fresh));
    ASSERT_TRUE(third->Fill(*fresh, 0, kLostBytes, std::byte{7}).ok());
    ASSERT_TRUE(third->Synchronize().ok());
    kept = fresh;
  }
  // Then the kernel ends after all.
  fake_->ReleaseHanging();
  ahead = nullptr;
  EXPECT_TRUE(test::Eventually(
      [&] { return second_->memory().used_bytes == MemoryPool::SizeClass(kLostBytes); }));
  std::vector<std::byte> got(kLostBytes);
  ASSERT_TRUE(other_->CopyOut(*kept, 0, got).ok());
  ASSERT_TRUE(other_->Synchronize().ok());
  EXPECT_TRUE(std::ranges::all_of(got, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_TRUE(second_->status().ok());
}

// A kernel of the second device that does not stop by itself is still found, though a wait for the
// first one is under way.
TEST_P(CudaWaitInVainTest, AHangingKernelBesideAWaitIsFound) {
  auto from = Allocate(64), to = There(64);
  auto hang = second_->Load({CodeFormat::kPtx, "k", "k hang 4", {2, 1}}).value();
  auto beside = second_->NewStream().value();
  auto stop = std::make_shared<StopFlag>();
  // Nobody stops the kernel of the first device.
  ASSERT_TRUE(Launch(*stream_, *Kernel("hang"), *from).ok());
  ASSERT_TRUE(other_->CopyFrom(*stream_, *from, 0, *to, 0, 64).ok());
  ASSERT_TRUE(Launch(*beside, *hang, *to, stop).ok());
  stop->Stop();
  const absl::Status status = beside->Synchronize();
  EXPECT_CODE(status, kUnavailable);
  EXPECT_THAT(StatusText(status), HasSubstr("CUDA:1 is lost: a kernel does not stop"));
  EXPECT_TRUE(device_->status().ok());
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaWaitInVainTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Direct" : "Staged"; });

}  // namespace
}  // namespace uopd::devices::cuda
