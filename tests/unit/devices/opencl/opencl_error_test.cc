// SPDX-License-Identifier: MIT
// What the driver says when OpenCL fails, and what it then lets go, with a driver that fails on
// demand.
#include <thread>

#include "devices/opencl/opencl_device.h"
#include "devices/opencl/opencl_error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/devices/opencl/fake_opencl.h"

namespace uopd::devices::opencl {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using tests::Fake;

class OpenClErrorsTest : public testing::Test {
 protected:
  OpenClErrorsTest() { Fake().Reset(); }
  ~OpenClErrorsTest() override { EXPECT_THAT(Fake().Live(), IsEmpty()) << "not released"; }

  static OpenClOptions Options() {
    OpenClOptions options;
    options.api = &tests::FakeApi();
    return options;
  }
  static std::shared_ptr<OpenClDevice> Open() { return OpenClDevice::Open(Options()).value(); }
  static std::shared_ptr<Executable> Load(Device& device) {
    return device.Load({CodeFormat::kOpenClC, "sum", "kernel void sum() {}", {0, 0}}).value();
  }
  static void ExpectRefused(const char* why) {
    const absl::Status status = OpenClDevice::Open(Options()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(StatusText(status), HasSubstr(why));
  }
};

#define EXPECT_FAILS(expr, want, text)                          \
  do {                                                          \
    const absl::Status status_ = (expr);                        \
    EXPECT_EQ(status_.code(), absl::StatusCode::want);          \
    EXPECT_THAT(StatusText(status_), testing::HasSubstr(text)); \
  } while (0)

TEST_F(OpenClErrorsTest, CodesHaveTheNamesOfTheSpecification) {
  EXPECT_TRUE(StatusOf("clFlush", kClSuccess).ok());
  EXPECT_FAILS(StatusOf("clFlush", -5), kResourceExhausted,
               "clFlush fails with CL_OUT_OF_RESOURCES");
  EXPECT_FAILS(StatusOf("clFlush", -36), kInternal, "CL_INVALID_COMMAND_QUEUE");
  EXPECT_FAILS(StatusOf("clFlush", -2), kUnavailable, "CL_DEVICE_NOT_AVAILABLE");
  EXPECT_FAILS(StatusOf("clFlush", -9999), kInternal, "code -9999");
}

TEST_F(OpenClErrorsTest, ALibraryWithoutASymbolIsNamed) {
  EXPECT_FAILS(LoadOpenCl({"libm.so.6"}).status(), kUnavailable, "clGetPlatformIDs");
  EXPECT_FAILS(LoadOpenCl({"libuopd-absent.so.1"}).status(), kUnavailable, "libuopd-absent.so.1");
}

TEST_F(OpenClErrorsTest, RefusesDevicesThatItCannotUse) {
  Fake().SetPlatforms(0);
  ExpectRefused("There is no OpenCL device 0; the drivers offer 0");
  Fake().Reset();
  Fake().SetNumber(kClDeviceSvmCapabilities, 0);
  ExpectRefused("chip cannot be used: it has no shared virtual memory");
  Fake().Reset();
  Fake().SetText(kClDeviceProfile, "EMBEDDED_PROFILE");
  ExpectRefused("full profile");
  Fake().Reset();
  Fake().SetNumber(kClDeviceAvailable, 0);
  ExpectRefused("not available");
  Fake().Reset();
  Fake().Fail("clCreateContext", kClDeviceNotAvailable);
  ExpectRefused("clCreateContext fails with CL_DEVICE_NOT_AVAILABLE");
}

TEST_F(OpenClErrorsTest, DescribesADevice) {
  using enum DtypeNumber;
  const Target plain = Open()->target();
  EXPECT_EQ(plain.kind, "opencl");
  EXPECT_EQ(plain.arch, "chip");
  EXPECT_TRUE(plain.blocks);
  EXPECT_FALSE(plain.has_fma);
  EXPECT_TRUE(plain.dtypes.Has(F16));
  EXPECT_FALSE(plain.dtypes.Has(F64));
  EXPECT_EQ(plain.max_block_threads, 256);
  EXPECT_EQ(plain.shared_bytes, 32 << 10);
  EXPECT_EQ(plain.units, 20);
  EXPECT_EQ(plain.warp_lanes, 32);
  EXPECT_THAT(plain.toolchain, AllOf(HasSubstr("Fake"), Not(HasSubstr("correctly-rounded"))));
  EXPECT_EQ(Open()->info().processor, "CL:0");
  Fake().SetText(kClDeviceExtensions, "cl_khr_fp64 cl_khr_fp16 cl_amd_device_attribute_query");
  Fake().SetNumber(kClDeviceWavefrontWidthAmd, 64);
  Fake().SetNumber(kClDeviceSingleFpConfig, kClFpFma | kClFpCorrectlyRoundedDivideSqrt);
  const auto rich = Open();
  EXPECT_TRUE(rich->target().dtypes.Has(F16));
  EXPECT_TRUE(rich->target().dtypes.Has(F64));
  EXPECT_TRUE(rich->target().has_fma);
  EXPECT_EQ(rich->target().warp_lanes, 64);
  EXPECT_NE(rich->target().toolchain, plain.toolchain);
  EXPECT_TRUE(rich->compiler().Compile("kernel void k() {}").ok());
  EXPECT_EQ(Fake().BuildOptions(), "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt");
}

TEST_F(OpenClErrorsTest, OutOfMemoryIsResourceExhausted) {
  auto device = Open();
  EXPECT_FAILS(device->Allocate(2 << 20, MemoryKind::kDevice).status(), kResourceExhausted,
               "the largest buffer of CL:0 has 1048576 bytes");
  Fake().Fail("clSVMAlloc", kClOutOfResources);
  EXPECT_FAILS(device->Allocate(100, MemoryKind::kDevice).status(), kResourceExhausted, "memory");
  EXPECT_FAILS(device->NewStream().status(), kResourceExhausted, "stop word");
  EXPECT_EQ(device->memory().used_bytes, 0u);
  Fake().Fail("clSVMAlloc", kClSuccess);
  EXPECT_TRUE(device->Allocate(100, MemoryKind::kDevice).ok());
}

// One limit is for all devices, and some have less memory.
TEST_F(OpenClErrorsTest, TheLimitIsAtMostWhatTheDeviceHas) {
  for (const auto& [limit, used] :
       {std::pair(0, 7 << 20), {1 << 20, 1 << 20}, {1 << 30, 7 << 20}}) {
    OpenClOptions options = Options();
    options.memory.limit_bytes = static_cast<size_t>(limit);
    auto device = OpenClDevice::Open(options).value();
    EXPECT_EQ(device->info().total_bytes, used) << limit;
    EXPECT_EQ(device->memory().limit_bytes, static_cast<size_t>(used)) << limit;
  }
}

TEST_F(OpenClErrorsTest, AFailedBuildGivesTheDiagnosticAndTheText) {
  auto device = Open();
  Fake().Fail("clBuildProgram", kClBuildProgramFailure);
  EXPECT_FAILS(device->compiler().Compile("kernel void bad();").status(), kInternal,
               "line 1: unknown word\nThe text begins:\nkernel void bad();");
  EXPECT_FAILS(device->Load({CodeFormat::kObject, "k", "binary", {}}).status(), kInternal,
               "CL_BUILD_PROGRAM_FAILURE");
  Fake().Fail("clBuildProgram", kClOutOfHostMemory);
  EXPECT_FAILS(device->compiler().Compile("x").status(), kResourceExhausted, "clBuildProgram");
  Fake().Fail("the binary", -42);
  EXPECT_FAILS(device->Load({CodeFormat::kObject, "k", "rubbish", {}}).status(), kInternal,
               "CL_INVALID_BINARY");
  EXPECT_FAILS(device->Load({CodeFormat::kPtx, "k", "x", {}}).status(), kUnimplemented, "CL:0");
}

TEST_F(OpenClErrorsTest, AKernelThatIsMissingOrTakesOtherArgumentsIsRefused) {
  auto device = Open();
  Fake().SetKernelArguments(4);
  EXPECT_FAILS(device->Load({CodeFormat::kOpenClC, "sum", "x", {2, 2}}).status(), kInternal,
               "Kernel sum takes 4 arguments, and is to take 5");
  Fake().Fail("clCreateKernel", -46);
  EXPECT_FAILS(device->Load({CodeFormat::kOpenClC, "sum", "x", {2, 1}}).status(), kInternal,
               "CL_INVALID_KERNEL_NAME (while loading kernel sum)");
}

TEST_F(OpenClErrorsTest, ALaunchThatFailsIsTheErrorOfSynchronize) {
  auto device = Open();
  auto kernel = Load(*device);
  auto stream = device->NewStream().value();
  auto done = device->NewSemaphore().value();
  Fake().Fail("clEnqueueNDRangeKernel", kClOutOfResources);
  EXPECT_TRUE(stream->Launch(*kernel, {}, {}, {}).ok());
  EXPECT_TRUE(stream->Record(done, 1).ok());
  EXPECT_FAILS(stream->Synchronize(), kResourceExhausted,
               "CL_OUT_OF_RESOURCES (while launching kernel sum)");
  EXPECT_EQ(done->failure().code(), absl::StatusCode::kResourceExhausted);
  Fake().Fail("clEnqueueNDRangeKernel", kClSuccess);
  int64_t duration_ns = -1;
  EXPECT_TRUE(stream->Launch(*kernel, {}, {}, {}, &duration_ns).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(duration_ns, 234);
}

TEST_F(OpenClErrorsTest, AnArgumentThatIsRefusedIsTheErrorOfSynchronize) {
  auto device = Open();
  auto kernel = Load(*device);
  auto stream = device->NewStream().value();
  Fake().Fail("clSetKernelArgSVMPointer", -50);
  EXPECT_TRUE(stream->Launch(*kernel, {}, {}, {}).ok());
  EXPECT_FAILS(stream->Synchronize(), kInternal, "clSetKernelArgSVMPointer");
}

TEST_F(OpenClErrorsTest, AnErrorWhileACommandRunsIsTheErrorOfSynchronize) {
  auto device = Open();
  auto kernel = Load(*device);
  auto buffer = device->Allocate(8, MemoryKind::kDevice).value();
  auto stream = device->NewStream().value();
  Fake().SetEventStatus(kClOutOfResources);
  EXPECT_TRUE(stream->Launch(*kernel, {}, {}, {}).ok());
  EXPECT_TRUE(stream->Fill(*buffer, 0, 8, std::byte{1}).ok());
  EXPECT_FAILS(stream->Synchronize(), kResourceExhausted, "executing: Kernel sum");
  Fake().SetEventStatus(kClComplete);
  EXPECT_TRUE(stream->Synchronize().ok());
}

// The fake driver never calls back.
TEST_F(OpenClErrorsTest, ADriverThatDoesNotCallBackIsPolled) {
  auto device = Open();
  auto buffer = device->Allocate(8, MemoryKind::kDevice).value();
  auto stream = device->NewStream().value();
  auto done = device->NewSemaphore().value();
  Fake().SetEventStatus(1);  // runs
  ASSERT_TRUE(stream->Fill(*buffer, 0, 8, std::byte{1}).ok());
  ASSERT_TRUE(stream->Record(done, 1).ok());
  const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  EXPECT_EQ(done->Wait(1, soon).code(), absl::StatusCode::kDeadlineExceeded);
  Fake().SetEventStatus(kClComplete);
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(done->value(), 1u);
}

TEST_F(OpenClErrorsTest, ADeviceIsLostUntilItsDriverHasItAgain) {
  auto device = Open();
  auto kernel = Load(*device);
  auto buffer = device->Allocate(8, MemoryKind::kDevice).value();
  auto stream = device->NewStream().value();
  Fake().SetNumber(kClDeviceAvailable, 0);
  Fake().Fail("clFlush", kClDeviceNotAvailable);
  EXPECT_TRUE(device->status().ok()) << "nothing has failed yet";
  EXPECT_TRUE(stream->Fill(*buffer, 0, 8, std::byte{1}).ok());
  EXPECT_FAILS(stream->Synchronize(), kUnavailable, "CL_DEVICE_NOT_AVAILABLE");
  EXPECT_FAILS(device->status(), kUnavailable, "clFlush");
  EXPECT_FAILS(stream->Launch(*kernel, {}, {}, {}), kUnavailable, "clFlush");
  EXPECT_FAILS(device->Allocate(8, MemoryKind::kDevice).status(), kUnavailable, "clFlush");
  EXPECT_FAILS(device->compiler().Compile("x").status(), kUnavailable, "clFlush");
  EXPECT_FAILS(device->NewStream().status(), kUnavailable, "clFlush");
  Fake().Fail("clFlush", kClSuccess);
  EXPECT_FALSE(device->status().ok());
  Fake().SetNumber(kClDeviceAvailable, 1);
  EXPECT_TRUE(device->status().ok());
  EXPECT_TRUE(stream->Fill(*buffer, 0, 8, std::byte{1}).ok());
  EXPECT_TRUE(stream->Synchronize().ok());
}

// As discrete GPUs: the host cannot address their memory.
TEST_F(OpenClErrorsTest, AnOwnMemoryIsFilledByTheDevice) {
  Fake().SetNumber(kClDeviceHostUnifiedMemory, 0);
  Fake().SetNumber(kClDeviceSvmCapabilities, kClSvmCoarseGrainBuffer);
  OpenClOptions options = Options();
  options.memory.pattern = PatternOf(std::byte{0xA5});
  auto device = OpenClDevice::Open(options).value();
  EXPECT_FAILS(device->Allocate(8, MemoryKind::kHostVisible).status(), kUnimplemented, "CL:0");
  auto buffer = device->Allocate(8, MemoryKind::kDevice).value();
  EXPECT_EQ(buffer->host_data(), nullptr);
  auto stream = device->NewStream().value();
  std::vector<std::byte> got(8);
  ASSERT_TRUE(stream->CopyOut(*buffer, 0, got).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_THAT(got, Each(std::byte{0xA5}));
  Fake().Fail("clEnqueueSVMMemFill", kClOutOfResources);
  EXPECT_FAILS(device->Allocate(8, MemoryKind::kDevice).status(), kResourceExhausted, "MemFill");
  EXPECT_FAILS(device->NewStream().status(), kResourceExhausted, "MemFill");
}

// Many commands without a Synchronize: what is done is let go on the way.
TEST_F(OpenClErrorsTest, ALongSequenceLetsGoOfItsCommandsOnTheWay) {
  auto device = Open();
  auto buffer = device->Allocate(8, MemoryKind::kDevice).value();
  auto stream = device->NewStream().value();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(stream->Fill(*buffer, 0, 8, std::byte{1}).ok());
  while (true) {  // until the stream has given all of them to the driver
    const auto live = Fake().Live();
    ASSERT_LE(live.count("event"), 256u);
    if (live.count("event") == 1000 % 256) break;
    std::this_thread::yield();
  }
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(Fake().Live().count("event"), 0u);
}

}  // namespace
}  // namespace uopd::devices::opencl
