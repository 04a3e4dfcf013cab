// SPDX-License-Identifier: MIT
// Kernels on a device of PoCL: what they are given and how they compute, how they are stopped, and
// that CPU kernels run beside them in one process.
#include "devices/opencl/opencl_device.h"

#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "devices/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/pocl.h"

namespace uopd::devices::opencl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const bool kUsesPocl = uopd::tests::UsePocl();

class OpenClDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = uopd::tests::WhyNoOpenCl(); !why.empty()) GTEST_SKIP() << why;
    auto device = OpenClDevice::Open({});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    stream_ = device_->NewStream().value();
  }

  std::shared_ptr<Executable> Load(const char* source, ArgLayout args) {
    auto kernel = device_->Load({CodeFormat::kOpenClC, "k", source, args});
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? *kernel : nullptr;
  }
  template <class T>
  std::shared_ptr<Buffer> Of(const std::vector<T>& values) {
    auto buffer = device_->Allocate(values.size() * sizeof(T), MemoryKind::kDevice).value();
    EXPECT_TRUE(stream_->CopyIn(std::as_bytes(std::span(values)), *buffer, 0).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return buffer;
  }
  template <class T>
  std::vector<T> Values(Buffer& buffer) {
    std::vector<T> out(buffer.size() / sizeof(T));
    EXPECT_TRUE(stream_->CopyOut(buffer, 0, std::as_writable_bytes(std::span(out))).ok());
    const absl::Status status = stream_->Synchronize();
    EXPECT_TRUE(status.ok()) << status;
    return out;
  }

  std::shared_ptr<OpenClDevice> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(OpenClDeviceTest, DescribesPocl) {
  using enum DtypeNumber;
  const Target& target = device_->target();
  EXPECT_EQ(target.kind, "opencl");
  EXPECT_TRUE(target.blocks);
  EXPECT_THAT(target.toolchain, HasSubstr("Portable Computing Language"));
  EXPECT_TRUE(target.dtypes.Has(F64));
  EXPECT_TRUE(target.dtypes.Has(F16)) << "cl_khr_fp16 is not needed";
  EXPECT_GE(target.max_block_threads, 1024);
  EXPECT_GE(target.shared_bytes, 16 << 10);
  EXPECT_EQ(device_->info().processor, "host");
}

// Threads of a block read what the others of the same block have stored.
TEST_F(OpenClDeviceTest, BlocksShareMemoryAndWaitAtBarriers) {
  constexpr int kBlocks = 5, kThreads = 64;
  auto kernel = Load(R"(
kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void k(global const int* a, global int* b, global volatile int* stop) {
  local int shared[64];
  int thread = get_local_id(0), block = get_group_id(0);
  shared[thread] = a[block * 64 + thread];
  for (int left = 32; left > 0; left /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread < left) shared[thread] += shared[thread + left];
  }
  if (thread == 0) b[block] = shared[0];
})",
                     {2, 0});
  std::vector<int32_t> numbers(kBlocks * kThreads);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i);
  auto a = Of(numbers), b = Of(std::vector<int32_t>(kBlocks, -1));
  const BufferArg args[] = {{a.get(), 0}, {b.get(), 0}};
  int64_t duration_ns = -1;
  ASSERT_TRUE(
      stream_->Launch(*kernel, {{kBlocks, 1, 1}, {kThreads, 1, 1}}, args, {}, &duration_ns).ok());
  EXPECT_THAT(Values<int32_t>(*b), ElementsAre(2016, 6112, 10208, 14304, 18400));
  EXPECT_GT(duration_ns, 0);
}

TEST_F(OpenClDeviceTest, KernelsGetOffsetsAndVariablesInTheirOrder) {
  auto kernel = Load(R"(
kernel void k(global const int* a, global long* b, long first, long second, global volatile int* stop) {
  b[get_global_id(0) * get_global_size(1) + get_global_id(1)] =
      a[0] + first * 1000 - second + get_group_id(0) * 10 + get_local_id(1);
})",
                     {2, 2});
  auto a = Of(std::vector<int32_t>{1, 2, 3});
  auto b = Of(std::vector<int64_t>(6, -1));
  const BufferArg args[] = {{a.get(), 8}, {b.get(), 16}};
  const int64_t vars[] = {int64_t{1} << 40, 5};
  ASSERT_TRUE(stream_->Launch(*kernel, {{2, 1, 1}, {1, 2, 1}}, args, vars).ok());
  const int64_t base = (int64_t{1} << 40) * 1000 - 2;
  EXPECT_THAT(Values<int64_t>(*b), ElementsAre(-1, -1, base, base + 1, base + 10, base + 11));
}

// The compiler may not join a multiplication and an addition, divide by a reciprocal, or flush
// denormals.
TEST_F(OpenClDeviceTest, ArithmeticIsThatOfIeee754) {
  auto kernel = Load(R"(
kernel void k(global const float* a, global float* b, global volatile int* stop) {
  int i = get_global_id(0);
  b[3 * i] = a[3 * i] * a[3 * i + 1] + a[3 * i + 2];
  b[3 * i + 1] = a[3 * i] / a[3 * i + 1];
  b[3 * i + 2] = a[3 * i] * 1e-38f;
})",
                     {2, 0});
  std::vector<float> numbers, want;
  uint32_t seed = 1;
  const auto next = [&] {
    seed = seed * 1664525 + 1013904223;
    return 0.5f + static_cast<float>(seed >> 8) * 0x1p-24f;
  };
  for (int i = 0; i < 1000; ++i) {
    const float x = next(), y = next();
    const float product = x * y;
    const volatile float rounded = product;  // the test is compiled without contraction, too
    const float z = -rounded;
    numbers.insert(numbers.end(), {x, y, z});
    want.insert(want.end(), {rounded + z, x / y, x * 1e-38f});
  }
  auto a = Of(numbers), b = Of(std::vector<float>(numbers.size(), -1));
  const BufferArg args[] = {{a.get(), 0}, {b.get(), 0}};
  ASSERT_TRUE(stream_->Launch(*kernel, {{1000, 1, 1}, {1, 1, 1}}, args, {}).ok());
  EXPECT_EQ(Values<float>(*b), want);
}

TEST_F(OpenClDeviceTest, ObjectsLoadOnAnotherDevice) {
  const std::string object =
      device_->compiler()
          .Compile("kernel void k(global int* a, global volatile int* stop) { a[0] = 7; }")
          .value();
  auto other = OpenClDevice::Open({.index = 1}).value();
  auto kernel = other->Load({CodeFormat::kObject, "k", object, {1, 0}}).value();
  auto buffer = other->Allocate(4, MemoryKind::kHostVisible).value();
  auto stream = other->NewStream().value();
  const BufferArg args[] = {{buffer.get(), 0}};
  ASSERT_TRUE(stream->Launch(*kernel, {}, args, {}).ok());
  ASSERT_TRUE(stream->Synchronize().ok());
  int32_t got;
  std::memcpy(&got, buffer->host_data(), sizeof got);
  EXPECT_EQ(got, 7);
  const absl::Status rubbish =
      device_->Load({CodeFormat::kObject, "k", "rubbish", {1, 0}}).status();
  EXPECT_EQ(rubbish.code(), absl::StatusCode::kInternal) << rubbish;
}

TEST_F(OpenClDeviceTest, ATextThatDoesNotCompileIsInternalWithTheDiagnostic) {
  const absl::Status status =
      device_->compiler().Compile("kernel void k( { no_such_word; }").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("expected parameter declarator"));
  EXPECT_THAT(StatusText(status), HasSubstr("no_such_word; }"));
}

TEST_F(OpenClDeviceTest, ABlockOfAnotherSizeThanTheKernelsIsRefused) {
  auto kernel = Load(
      "kernel __attribute__((reqd_work_group_size(8, 1, 1))) void k(global volatile int* stop) {}",
      {0, 0});
  ASSERT_TRUE(stream_->Launch(*kernel, {{2, 1, 1}, {4, 1, 1}}, {}, {}).ok());
  const absl::Status status = stream_->Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), HasSubstr("CL_INVALID_WORK_GROUP_SIZE"));
  EXPECT_TRUE(stream_->Launch(*kernel, {{2, 1, 1}, {8, 1, 1}}, {}, {}).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

constexpr char kPolls[] = R"(
kernel void k(global volatile int* started, global int* b, long most, global volatile int* stop) {
  started[0] = 1;
  for (long i = 0; i < most; ++i) {
    if (*stop != 0) return;
  }
  b[0] = 1;
})";

TEST_F(OpenClDeviceTest, AKernelThatPollsIsStoppedWhileItRuns) {
  auto kernel = Load(kPolls, {2, 1});
  auto started = device_->Allocate(4, MemoryKind::kHostVisible).value();
  std::memset(started->host_data(), 0, 4);
  auto b = Of(std::vector<int32_t>{0});
  const BufferArg args[] = {{started.get(), 0}, {b.get(), 0}};
  const int64_t for_ever[] = {int64_t{1} << 60}, soon[] = {10};
  auto stop = std::make_shared<StopFlag>();
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, for_ever, nullptr, stop).ok());
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, soon, nullptr, stop).ok());
  ASSERT_TRUE(stream_->Fill(*b, 0, 4, std::byte{2}).ok());
  auto* word = reinterpret_cast<std::atomic<int32_t>*>(started->host_data());
  while (word->load() == 0) std::this_thread::yield();
  stop->Stop();
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(Values<int32_t>(*b), ElementsAre(0));
  // The stream's next run has nothing to do with that flag.
  auto other = std::make_shared<StopFlag>();
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, soon, nullptr, other).ok());
  EXPECT_THAT(Values<int32_t>(*b), ElementsAre(1));
}

TEST_F(OpenClDeviceTest, ALaunchWithoutAFlagIsNotStoppedByTheRunBeforeIt) {
  auto kernel = Load(kPolls, {2, 1});
  auto a = Of(std::vector<int32_t>{0}), b = Of(std::vector<int32_t>{0});
  const BufferArg args[] = {{a.get(), 0}, {b.get(), 0}};
  const int64_t vars[] = {1'000};
  auto flag = std::make_shared<StopFlag>();
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars, nullptr, flag).ok());
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  flag->Stop();
  ASSERT_TRUE(stream_->Fill(*b, 0, 4, std::byte{0}).ok());
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars).ok());
  EXPECT_THAT(Values<int32_t>(*b), ElementsAre(1));
}

TEST_F(OpenClDeviceTest, CompilesWhileAKernelRuns) {
  auto kernel = Load(kPolls, {2, 1});
  auto a = Of(std::vector<int32_t>{0}), b = Of(std::vector<int32_t>{0});
  const BufferArg args[] = {{a.get(), 0}, {b.get(), 0}};
  const int64_t for_ever[] = {int64_t{1} << 60};
  auto stop = std::make_shared<StopFlag>();
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, for_ever, nullptr, stop).ok());
  EXPECT_TRUE(device_->compiler().Compile("kernel void other(global int* a) { *a = 1; }").ok());
  stop->Stop();
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kCancelled);
}

// PoCL's LLVM and the daemon's LLVM are different versions in one process.
TEST_F(OpenClDeviceTest, CpuKernelsRunInTheSameProcess) {
  auto registry = Registry::Create({.devices = "CL:0,CPU,CL:1"}).value();
  const char llvm[] =
      "define void @k(ptr %buffers, ptr %vars, i64 %thread) {\n"
      "  %to = load ptr, ptr %buffers\n  store i32 5, ptr %to\n  ret void\n}\n";
  const char opencl[] = "kernel void k(global int* a, global volatile int* stop) { a[0] = 5; }";
  std::vector<std::thread> threads;
  for (const char* name : {"CPU", "CL:0", "CPU", "CL:1"}) {
    threads.emplace_back([&, name] {
      auto device = registry->Get(name).value();
      const bool cpu = device->target().kind == "cpu";
      auto stream = device->NewStream().value();
      for (int i = 0; i < 3; ++i) {
        const std::string object = device->compiler().Compile(cpu ? llvm : opencl).value();
        auto kernel = device->Load({CodeFormat::kObject, "k", object, {1, 0}}).value();
        auto buffer = device->Allocate(4, MemoryKind::kDevice).value();
        const BufferArg args[] = {{buffer.get(), 0}};
        int32_t got = 0;
        EXPECT_TRUE(stream->Launch(*kernel, {}, args, {}).ok());
        EXPECT_TRUE(stream->CopyOut(*buffer, 0, std::as_writable_bytes(std::span(&got, 1))).ok());
        EXPECT_TRUE(stream->Synchronize().ok());
        EXPECT_EQ(got, 5);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(OpenClDeviceTest, AnAbsentDeviceIsUnavailable) {
  const absl::Status status = OpenClDevice::Open({.index = 200}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(StatusText(status), HasSubstr("There is no OpenCL device 200"));
}

}  // namespace
}  // namespace uopd::devices::opencl
