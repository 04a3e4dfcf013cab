// SPDX-License-Identifier: MIT
// Copies between two devices of the driver: from chip to chip, and through pinned memory.
#include <algorithm>

#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

constexpr size_t kPeerBytes =
    (size_t{21} << 20) + 12345;  // more than two pieces, and a part of one

class CudaPeerTest : public CudaTest {
 protected:
  void TearDown() override {
    Close();
    CudaTest::TearDown();
  }
  void Close() {
    stream_ = nullptr;
    other_ = nullptr;
    device_ = nullptr;
    second_ = nullptr;
  }
  void OpenBoth(bool peers) {
    Start({.peers = peers});
    Open();
    CudaOptions options = Options();
    options.index = 1;
    second_ = CudaDevice::Open(options).value();
    other_ = second_->NewStream().value();
  }
  std::shared_ptr<Buffer> There(size_t bytes) {
    return second_->Allocate(bytes, MemoryKind::kDevice).value();
  }
  // Copies different bytes twice, and overwrites the source at once after each copy.
  void CopyTwice() {
    auto from = Allocate(kPeerBytes + 8), to = There(kPeerBytes + 8);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::byte> data(kPeerBytes);
      for (size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<std::byte>((i * 7 + i / 4096 + static_cast<size_t>(round)) % 251);
      }
      ASSERT_TRUE(stream_->CopyIn(data, *from, 8).ok());
      ASSERT_TRUE(other_->CopyFrom(*stream_, *from, 8, *to, 4, kPeerBytes).ok());
      ASSERT_TRUE(stream_->Fill(*from, 0, kPeerBytes, std::byte{0xEE}).ok());
      std::vector<std::byte> got(kPeerBytes);
      ASSERT_TRUE(other_->CopyOut(*to, 4, got).ok());
      ASSERT_TRUE(other_->Synchronize().ok());
      ASSERT_TRUE(stream_->Synchronize().ok());
      EXPECT_TRUE(got == data) << round;
    }
  }

  std::shared_ptr<CudaDevice> second_;
  std::unique_ptr<Stream> other_;
};

// The parameter: whether the chips reach each other.
class CudaPeerWaysTest : public CudaPeerTest, public testing::WithParamInterface<bool> {};

TEST_F(CudaPeerTest, CopiesFromChipToChip) {
  OpenBoth(true);
  CopyTwice();
  EXPECT_EQ(fake_->Calls("cuMemcpyPeerAsync"), 2);
  EXPECT_EQ(fake_->Calls("cuDeviceCanAccessPeer"), 1);
  EXPECT_EQ(fake_->Calls("cuCtxEnablePeerAccess"), 1);
}

TEST_F(CudaPeerTest, CopiesThroughPinnedMemoryWhereChipsCannotReachEachOther) {
  OpenBoth(false);
  CopyTwice();
  EXPECT_EQ(fake_->Calls("cuMemcpyPeerAsync"), 0);
  EXPECT_EQ(fake_->Calls("cuDeviceCanAccessPeer"), 1);
}

TEST_P(CudaPeerWaysTest, TheHostWaitsForNothing) {
  const bool peers = GetParam();
  OpenBoth(peers);
  auto from = Allocate(kPeerBytes), to = There(kPeerBytes);
  ASSERT_TRUE(stream_->Fill(*from, 0, kPeerBytes, std::byte{5}).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  // The copy is given to the driver while a kernel runs before it on the source.
  ASSERT_TRUE(Launch(*stream_, *Kernel("hang"), *from).ok());
  ASSERT_TRUE(other_->CopyFrom(*stream_, *from, 0, *to, 0, kPeerBytes).ok());
  const char* copy = peers ? "cuMemcpyPeerAsync" : "cuMemcpyHtoDAsync_v2";
  EXPECT_TRUE(test::Eventually([&] { return fake_->Calls(copy) >= 1; }));
  fake_->ReleaseHanging();
  std::vector<std::byte> got(kPeerBytes);
  ASSERT_TRUE(other_->CopyOut(*to, 0, got).ok());
  ASSERT_TRUE(other_->Synchronize().ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(std::ranges::all_of(got, [](std::byte b) { return b == std::byte{5}; })) << peers;
}

TEST_P(CudaPeerWaysTest, AFailureOfTheTargetIsNotTheSources) {
  const bool peers = GetParam();
  OpenBoth(peers);
  auto from = Allocate(kPeerBytes), to = There(kPeerBytes);
  fake_->Fail(peers ? "cuMemcpyPeerAsync" : "cuMemcpyHtoDAsync_v2", kInvalidValue);
  ASSERT_TRUE(other_->CopyFrom(*stream_, *from, 0, *to, 0, kPeerBytes).ok());
  EXPECT_CODE(other_->Synchronize(), kInternal);
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_F(CudaPeerTest, ADriverThatRefusesAccessCopiesThroughTheHost) {
  OpenBoth(true);
  fake_->Fail("cuCtxEnablePeerAccess", kInvalidValue);
  CopyTwice();
  EXPECT_EQ(fake_->Calls("cuMemcpyPeerAsync"), 0);
  EXPECT_EQ(fake_->Calls("cuCtxEnablePeerAccess"), 1);
}

TEST_P(CudaPeerWaysTest, ALostTargetEndsTheCopy) {
  const bool peers = GetParam();
  OpenBoth(peers);
  auto from = Allocate(kPeerBytes), to = There(kPeerBytes);
  auto trap = second_->Load({CodeFormat::kPtx, "k", "k trap 4", {2, 1}}).value();
  auto gate = second_->NewSemaphore().value();
  ASSERT_TRUE(other_->Wait(gate, 1).ok());
  ASSERT_TRUE(Launch(*other_, *trap, *to).ok());
  ASSERT_TRUE(other_->CopyFrom(*stream_, *from, 0, *to, 0, kPeerBytes).ok());
  gate->Signal(1);
  EXPECT_CODE(other_->Synchronize(), kUnavailable);
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(device_->status().ok());
  // Opening it again resets what the lost one had.
  CudaOptions options = Options();
  options.index = 1;
  EXPECT_TRUE(test::Eventually([&] { return CudaDevice::Open(options).ok(); }));
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaPeerWaysTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Direct" : "Staged"; });

}  // namespace
}  // namespace uopd::devices::cuda
