// SPDX-License-Identifier: MIT
// Memory, and copies of it.
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;

class CudaMemoryTest : public CudaTest {};

TEST_F(CudaMemoryTest, GivesKeptBlocksBackWhenTheChipIsFull) {
  Open();
  {
    const auto kept = Allocate(1 << 20);
  }
  EXPECT_GE(device_->memory().pooled_bytes, size_t{1} << 20);
  // The first attempt fails, as other processes use the chip too. The pool then gives back what it
  // keeps.
  fake_->Fail("cuMemAlloc_v2", kOutOfMemory);
  const auto other = device_->Allocate(3 << 20, MemoryKind::kDevice);
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(device_->memory().pooled_bytes, 0u);
  EXPECT_EQ(fake_->Calls("cuMemFree_v2"), 1);
  fake_->Fail("cuMemAlloc_v2", kOutOfMemory, 0, 2);
  const absl::Status full = device_->Allocate(5 << 20, MemoryKind::kDevice).status();
  EXPECT_CODE(full, kResourceExhausted);
  EXPECT_THAT(StatusText(full), HasSubstr("no memory left"));
  EXPECT_TRUE(device_->status().ok());
}

TEST_F(CudaMemoryTest, HostVisibleMemoryIsAddressedByBoth) {
  Open();
  auto kernel = Kernel("adder");
  auto buffer = Allocate(64, MemoryKind::kHostVisible);
  ASSERT_NE(buffer->host_data(), nullptr);
  const int32_t seven = 7;
  std::memcpy(buffer->host_data(), &seven, 4);
  ASSERT_TRUE(Launch(*stream_, *kernel, *buffer).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  int32_t sum;
  std::memcpy(&sum, buffer->host_data(), 4);
  EXPECT_EQ(sum, 15);
  auto chip = Allocate(64);
  EXPECT_EQ(chip->host_data(), nullptr);
  ASSERT_TRUE(stream_->Copy(*buffer, 0, *chip, 0, 64).ok());
  EXPECT_EQ(ReadInt(*chip), 15);
}

TEST_F(CudaMemoryTest, AFailureToRegisterOrToMapIsOne) {
  Open();
  fake_->Fail("cuMemHostRegister_v2", kOutOfMemory, 0, 2);  // also when the pool tries again
  EXPECT_CODE(device_->Allocate(64, MemoryKind::kHostVisible).status(), kResourceExhausted);
  fake_->Fail("cuMemHostGetDevicePointer_v2", kInvalidValue);
  EXPECT_CODE(device_->Allocate(64, MemoryKind::kHostVisible).status(), kInternal);
  EXPECT_EQ(device_->memory().used_bytes, 0u);
  EXPECT_TRUE(device_->Allocate(64, MemoryKind::kHostVisible).ok());
}

std::vector<std::byte> Numbered(size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 31 >> 3);
  return out;
}

TEST_F(CudaMemoryTest, CopiesMuchInPieces) {
  Open();
  const auto data = Numbered((size_t{9} << 20) + 5);
  auto buffer = Allocate(data.size() + 3);
  std::vector<std::byte> got(data.size());
  ASSERT_TRUE(stream_->CopyIn(data, *buffer, 3).ok());
  ASSERT_TRUE(stream_->CopyOut(*buffer, 3, got).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(got == data);
  EXPECT_EQ(fake_->Calls("cuMemcpyHtoDAsync_v2"), 3);
  EXPECT_EQ(fake_->Calls("cuMemcpyDtoHAsync_v2"), 3);
}

// Without pinned memory the driver copies by its own means.
TEST_F(CudaMemoryTest, CopiesWithoutPinnedMemory) {
  Open();
  const auto data = Numbered(size_t{5} << 20);
  auto buffer = Allocate(data.size());
  std::vector<std::byte> got(data.size());
  fake_->Fail("cuMemHostRegister_v2", kOutOfMemory, 0, 1000);
  ASSERT_TRUE(stream_->CopyIn(data, *buffer, 0).ok());
  ASSERT_TRUE(stream_->CopyOut(*buffer, 0, got).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(got == data);
}

// The buffer goes while its memory is still in use on the chip.
TEST_F(CudaMemoryTest, MemoryInUseIsNotFree) {
  Open();
  auto spin = Kernel("spin");
  auto stop = std::make_shared<StopFlag>();
  auto buffer = Allocate(4096);
  ASSERT_TRUE(Launch(*stream_, *spin, *buffer, stop).ok());
  buffer = nullptr;
  EXPECT_GE(device_->memory().used_bytes, 4096u);
  stop->Stop();
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_EQ(device_->memory().used_bytes, 0u);
}

TEST_F(CudaMemoryTest, EveryCopyAndFillMayFail) {
  Open();
  auto a = Allocate(64), b = Allocate(64);
  std::vector<std::byte> host(64);
  const struct {
    const char* call;
    std::function<absl::Status()> queue;
  } cases[] = {
      {"cuMemcpyHtoDAsync_v2", [&] { return stream_->CopyIn(host, *a, 0); }},
      {"cuMemcpyDtoHAsync_v2", [&] { return stream_->CopyOut(*a, 0, host); }},
      {"cuMemcpyAsync", [&] { return stream_->Copy(*a, 0, *b, 0, 64); }},
      {"cuMemsetD8Async", [&] { return stream_->Fill(*a, 0, 64, std::byte{1}); }},
  };
  for (const auto& c : cases) {
    fake_->Fail(c.call, kInvalidValue);
    EXPECT_TRUE(c.queue().ok()) << c.call;
    const absl::Status status = stream_->Synchronize();
    EXPECT_CODE(status, kInternal);
    EXPECT_EQ(StatusText(status), std::string(c.call) + " fails with CUDA_ERROR_INVALID_VALUE");
    EXPECT_TRUE(c.queue().ok()) << c.call;
    EXPECT_TRUE(stream_->Synchronize().ok()) << c.call;
  }
}

}  // namespace
}  // namespace uopd::devices::cuda
