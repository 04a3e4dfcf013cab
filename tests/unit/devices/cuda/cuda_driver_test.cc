// SPDX-License-Identifier: MIT
// Opening: the library, its symbols, its devices, and what they are.
#include "devices/cuda/cuda_target.h"
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

using testing::HasSubstr;

TEST(CudaSymbolsTest, NamesWhatIsMissing) {
  const absl::Status none = LoadCuda({"libuopd_no_such_library.so.1"}).status();
  EXPECT_CODE(none, kUnavailable);
  EXPECT_THAT(StatusText(none), HasSubstr("libuopd_no_such_library.so.1"));
  const absl::Status other = LoadCuda({"libm.so.6"}).status();
  EXPECT_CODE(other, kUnavailable);
  EXPECT_THAT(StatusText(other), HasSubstr("no symbol cuInit"));
}

class CudaDriverTest : public CudaTest {};

TEST_F(CudaDriverTest, TellsWhyThereIsNoDevice) {
  fake_->Fail("cuInit", kNoDevice);
  const absl::Status status = CudaDriver::Create(fake_->Api()).status();
  EXPECT_CODE(status, kUnavailable);
  EXPECT_EQ(StatusText(status), "cuInit fails with CUDA_ERROR_NO_DEVICE");
  Start({.devices = 1});
  CudaOptions options = Options();
  options.index = 1;
  const absl::Status second = CudaDevice::Open(options).status();
  EXPECT_CODE(second, kUnavailable);
  EXPECT_THAT(StatusText(second), HasSubstr("no CUDA device 1"));
}

TEST_F(CudaDriverTest, RefusesDevicesThatItCannotUse) {
  Start({.compute_mode = 2});
  EXPECT_CODE(CudaDevice::Open(Options()).status(), kUnavailable);
  Start({.unified_addressing = 0});
  EXPECT_CODE(CudaDevice::Open(Options()).status(), kUnimplemented);
}

TEST_F(CudaDriverTest, EveryCallOfOpeningMayFail) {
  for (const char* call : {"cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuDeviceGetName",
                           "cuDeviceGetPCIBusId", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute"}) {
    fake_->Fail(call, kLaunchOutOfResources);
    const absl::Status status = CudaDevice::Open(Options()).status();
    EXPECT_CODE(status, kInternal);
    EXPECT_EQ(StatusText(status),
              std::string(call) + " fails with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    EXPECT_TRUE(fake_->Live().empty()) << call;
  }
  EXPECT_TRUE(CudaDevice::Open(Options()).ok());
}

TEST_F(CudaDriverTest, TakesCodeForThisChipOnly) {
  CudaOptions options = Options();
  options.specific = true;
  Open(options);
  EXPECT_EQ(device_->target().arch, "sm_90a");
  EXPECT_EQ(device_->target().toolchain, "cuda-driver-12.4;arch=sm_90a;O4");
  EXPECT_TRUE(device_->target().matrix_instructions.back().in_shared());
}

TEST_F(CudaDriverTest, DescribesTheChip) {
  Open();
  const Target& target = device_->target();
  EXPECT_EQ(target.kind, "cuda");
  EXPECT_EQ(target.arch, "sm_90");
  EXPECT_EQ(target.format, CodeFormat::kPtx);
  EXPECT_EQ(target.toolchain, "cuda-driver-12.4;arch=sm_90;O4");
  EXPECT_TRUE(target.blocks);
  EXPECT_TRUE(target.shuffles);
  EXPECT_EQ(target.warp_lanes, 32);
  EXPECT_EQ(target.units, 132);
  EXPECT_EQ(target.shared_bytes, 227 << 10);
  EXPECT_EQ(target.max_block_threads, 1024);
  EXPECT_EQ(target.max_block[2], 64);
  EXPECT_EQ(target.max_grid[0], 2147483647);
  EXPECT_EQ(target.max_grid[1], 65535);
  EXPECT_EQ(target.matrix_instructions.front().name, "mma_bf16");
  EXPECT_EQ(device_->info().processor, "cuda:0000:00:00.0");
  EXPECT_FALSE(device_->info().runs_inline);
  EXPECT_GT(device_->info().peak_ops, 4e15);  // the fastest instructions of an H100
  const auto specific = KnownCudaFacts("sm_90a");
  ASSERT_TRUE(specific.has_value());
  EXPECT_EQ(specific->capability, 90);
  EXPECT_EQ(DescribeCuda(*specific).arch, "sm_90a");
  EXPECT_TRUE(DescribeCuda(*specific).matrix_instructions.back().in_shared());
  EXPECT_FALSE(target.matrix_instructions.back().in_shared());
  const auto old = DescribeCuda({.capability = 75});
  EXPECT_EQ(old.arch, "sm_75");
  EXPECT_TRUE(old.matrix_instructions.empty());
  const auto unknown = DescribeCuda({.capability = 87, .units = 16, .shared_bytes = 163 << 10});
  EXPECT_EQ(unknown.arch, "sm_87");
  EXPECT_EQ(unknown.kind, "cuda");
  EXPECT_EQ(unknown.units, 16);
  EXPECT_EQ(unknown.shared_bytes, 163 << 10);
  EXPECT_EQ(unknown.matrix_instructions.front().name, "mma_bf16");
}

TEST_F(CudaDriverTest, LeavesATenthOfTheMemoryToOthers) {
  CudaOptions options = Options();
  options.memory_limit_bytes = 0;
  Open(options);
  EXPECT_EQ(device_->info().total_bytes, (int64_t{1} << 30) / 10 * 9);
}

}  // namespace
}  // namespace uopd::devices::cuda
