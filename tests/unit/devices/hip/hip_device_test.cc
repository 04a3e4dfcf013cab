// SPDX-License-Identifier: MIT
// The driver of AMD's devices on a fake of HIP: opening, launches, graphs, stops and losses. What
// the shared code does in each case is tested with CUDA (tests/unit/devices/cuda).
#include "devices/hip/hip_device.h"

#include <cstring>
#include <thread>

#include "devices/hip/hip_target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/eventually.h"
#include "tests/support/hip/fake_hip.h"

namespace uopd::devices::hip {
namespace {

using testing::HasSubstr;

#define EXPECT_HIP_CODE(expr, want) EXPECT_EQ((expr).code(), absl::StatusCode::want)

TEST(HipSymbolsTest, NamesWhatIsMissing) {
  EXPECT_THAT(StatusText(LoadHip({"libuopd_no_such_library.so.1"}).status()),
              HasSubstr("libuopd_no_such_library.so.1"));
  const absl::Status other = LoadHip({"libm.so.6"}).status();
  EXPECT_HIP_CODE(other, kUnavailable);
  EXPECT_THAT(StatusText(other), HasSubstr("no symbol hipInit"));
}

class HipTest : public testing::Test {
 protected:
  void TearDown() override {
    stream_ = nullptr;
    device_ = nullptr;
    cuda_.ReleaseHanging();
    // HIP's own contexts stay.
    const std::map<std::string, int> contexts = {{"context", 2}};
    EXPECT_TRUE(test::Eventually([&] { return cuda_.Live() == contexts; }))
        << testing::PrintToString(cuda_.Live());
  }
  HipOptions Options() {
    return {.memory_limit_bytes = size_t{64} << 20,
            .driver = &driver_,
            .maybe_compiler = tests::FakeHip::TextCompiler()};
  }
  void Open(const HipOptions& options) {
    device_ = HipDevice::Open(options).value();
    stream_ = device_->NewStream().value();
  }
  std::shared_ptr<Executable> Kernel(const std::string& behaviour) {
    return device_->Load({CodeFormat::kAmdgpuIr, "k", "k " + behaviour + " 4", {2, 1}}).value();
  }
  absl::Status Launch(Executable& kernel, Buffer& buffer, const LaunchShape& shape = {},
                      const std::shared_ptr<const StopFlag>& stop = nullptr) {
    const BufferArg args[] = {{&buffer, 0}, {&buffer, 0}};
    const int64_t vars[] = {1};
    return stream_->Launch(kernel, shape, args, vars, nullptr, stop);
  }
  int32_t ReadInt(Buffer& buffer) {
    int32_t out = 0;
    EXPECT_TRUE(stream_->CopyOut(buffer, 0, std::as_writable_bytes(std::span(&out, 1))).ok());
    const absl::Status done = stream_->Synchronize();
    EXPECT_TRUE(done.ok()) << done;
    return out;
  }
  tests::FakeCuda cuda_;
  tests::FakeHip fake_{cuda_};
  HipDriver& driver_ = tests::FakeHip::LastingDriver();
  std::shared_ptr<HipDevice> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(HipTest, TellsWhyThereIsNoDevice) {
  cuda_.Fail("cuInit", gpu::kNoDevice);
  const absl::Status status = HipDriver::Create(tests::FakeHip::Api()).status();
  EXPECT_HIP_CODE(status, kUnavailable);
  EXPECT_EQ(StatusText(status), "hipInit fails with hipErrorNoDevice");
  HipOptions options = Options();
  options.index = 2;
  EXPECT_THAT(StatusText(HipDevice::Open(options).status()), HasSubstr("no HIP device 2"));
  HipApi nameless = tests::FakeHip::Api();
  nameless.hipGetDeviceProperties = nullptr;
  const auto driver = HipDriver::Create(nameless).value();
  options = Options();
  options.driver = driver.get();
  EXPECT_HIP_CODE(HipDevice::Open(options).status(), kUnimplemented);
}

TEST_F(HipTest, DescribesTheChip) {
  HipOptions options = Options();
  options.maybe_compiler = nullptr;
  options.lld = "/nowhere/ld.lld";
  EXPECT_HIP_CODE(HipDevice::Open(options).status(), kUnavailable);
  Open(Options());
  const Target& target = device_->target();
  EXPECT_EQ(target.kind, "hip");
  EXPECT_EQ(target.arch, "gfx942");
  EXPECT_EQ(target.format, CodeFormat::kAmdgpuIr);
  EXPECT_EQ(target.warp_lanes, 64);
  EXPECT_EQ(target.units, 304);
  EXPECT_EQ(target.shared_bytes, (64 << 10) - 128);
  EXPECT_EQ(target.max_grid[1], 65536);
  EXPECT_EQ(target.matrix_instructions.front().name, "mfma_bf16");
  EXPECT_EQ(device_->info().name, "AMD:0");
  EXPECT_EQ(device_->info().processor, "hip:0000:00:00.0");
  const Target unknown = DescribeHip({.processor = "gfx1030", .warp_lanes = 32});
  EXPECT_EQ(unknown.arch, "gfx1030");
  EXPECT_TRUE(unknown.matrix_instructions.empty());
}

TEST_F(HipTest, LaunchesAndCopies) {
  Open(Options());
  auto kernel = Kernel("adder");
  auto buffer = device_->Allocate(4, MemoryKind::kDevice).value();
  auto other = device_->Allocate(4, MemoryKind::kHostVisible).value();
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{0}).ok());
  // The kernel has its shared memory already.
  LaunchShape shape;
  shape.shared_bytes = 60 << 10;
  ASSERT_TRUE(Launch(*kernel, *buffer, shape).ok());
  ASSERT_TRUE(Launch(*kernel, *buffer).ok());
  ASSERT_TRUE(stream_->Copy(*buffer, 0, *other, 0, 4).ok());
  EXPECT_EQ(ReadInt(*buffer), 3);
  int32_t copied = 0;
  std::memcpy(&copied, other->host_data(), 4);
  EXPECT_EQ(copied, 3);
  const absl::Status wrong =
      device_->Load({CodeFormat::kObject, "k", "no ELF file", {2, 1}}).status();
  EXPECT_HIP_CODE(wrong, kInternal);
  EXPECT_THAT(StatusText(wrong), HasSubstr("no code object"));
}

TEST_F(HipTest, ReplaysAGraph) {
  HipOptions options = Options();
  options.graphs = true;
  Open(options);
  auto kernel = Kernel("adder");
  std::vector<RecordedLaunch> launches;
  for (int i = 0; i < 3; ++i) {
    RecordedLaunch launch{kernel, {}, {{0, 0}, {0, 0}}, {1}};
    launch.shape.shared_bytes = 1024;
    launches.push_back(std::move(launch));
  }
  const auto program = device_->Record(1, std::move(launches)).value();
  for (int replay = 0; replay < 2; ++replay) {
    auto buffer = device_->Allocate(4, MemoryKind::kDevice).value();
    ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{0}).ok());
    Buffer* const buffers[] = {buffer.get()};
    ASSERT_TRUE(stream_->Replay(*program, buffers).ok());
    EXPECT_EQ(ReadInt(*buffer), 7);
  }
  EXPECT_EQ(cuda_.Calls("cuGraphLaunch"), 2);
  EXPECT_EQ(cuda_.Calls("cuLaunchKernel"), 0);
}

TEST_F(HipTest, StopsAKernelThatPolls) {
  Open(Options());
  auto kernel = Kernel("spin");
  auto buffer = device_->Allocate(4, MemoryKind::kDevice).value();
  auto stop = std::make_shared<StopFlag>();
  ASSERT_TRUE(Launch(*kernel, *buffer, {}, stop).ok());
  stop->Stop();
  EXPECT_HIP_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_TRUE(device_->status().ok());
}

TEST_F(HipTest, OpensALostDeviceAgain) {
  Open(Options());
  auto kernel = Kernel("stray");
  auto buffer = device_->Allocate(4, MemoryKind::kDevice).value();
  ASSERT_TRUE(Launch(*kernel, *buffer).ok());
  const absl::Status lost = stream_->Synchronize();
  EXPECT_HIP_CODE(lost, kUnavailable);
  EXPECT_THAT(StatusText(lost), HasSubstr("AMD:0 is lost"));
  EXPECT_THAT(StatusText(lost), HasSubstr("hipErrorIllegalAddress"));
  EXPECT_HIP_CODE(device_->status(), kUnavailable);
  // What still runs ends soon; the device is refused until then.
  EXPECT_TRUE(test::Eventually([&] { return HipDevice::Open(Options()).ok(); }));
  EXPECT_EQ(cuda_.Calls("cuDevicePrimaryCtxReset_v2"), 1);
}

TEST_F(HipTest, CopiesBetweenDevicesFromChipToChip) {
  Open(Options());
  HipOptions options = Options();
  options.index = 1;
  auto second = HipDevice::Open(options).value();
  auto other = second->NewStream().value();
  auto from = device_->Allocate(64, MemoryKind::kDevice).value();
  auto to = second->Allocate(64, MemoryKind::kDevice).value();
  ASSERT_TRUE(stream_->Fill(*from, 0, 64, std::byte{5}).ok());
  ASSERT_TRUE(other->CopyFrom(*stream_, *from, 0, *to, 0, 64).ok());
  std::vector<std::byte> got(64);
  ASSERT_TRUE(other->CopyOut(*to, 0, got).ok());
  ASSERT_TRUE(other->Synchronize().ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_THAT(got, testing::Each(std::byte{5}));
  EXPECT_EQ(cuda_.Calls("cuMemcpyPeerAsync"), 1);
}

}  // namespace
}  // namespace uopd::devices::hip
