// SPDX-License-Identifier: MIT
// What every device promises in devices/api: what it is and its memory. The list of the devices is
// at the end; a new driver is one more line there.
#include "tests/conformance/device_conformance.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <thread>

#include "devices/cuda/cuda_device.h"
#include "devices/hip/hip_device.h"
#include "tests/support/cuda/fake_cuda.h"
#include "tests/support/hip/fake_hip.h"

namespace uopd::devices {
namespace {

using testing::Each;
using testing::ElementsAreArray;

TEST_P(DeviceConformance, TellsWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_EQ(info.name, std::string(GetParam().name) + ":0");
  EXPECT_EQ(info.total_bytes, static_cast<int64_t>(kLimit));
  EXPECT_GE(info.peak_ops, 0);
  EXPECT_TRUE(device_->status().ok());
}

TEST_P(DeviceConformance, DescribesACompleteTarget) {
  const Target& target = device_->target();
  EXPECT_EQ(target.format, GetParam().format);
  for (const std::string* text : {&target.kind, &target.arch, &target.toolchain}) {
    EXPECT_FALSE(text->empty());
  }
  // Codegen has no other way to express these.
  for (DtypeNumber d : {DtypeNumber::Bool, DtypeNumber::I32, DtypeNumber::I64, DtypeNumber::F32}) {
    EXPECT_TRUE(target.dtypes.Has(d)) << Name(d);
  }
  EXPECT_TRUE(std::has_single_bit(static_cast<unsigned>(target.vector_lanes)));
  EXPECT_GE(target.vector_bytes, 4);
  EXPECT_GE(target.vector_registers, 1);
  EXPECT_GE(target.private_bytes, 1);
  EXPECT_GE(target.threads, 1);
  EXPECT_GE(target.warp_lanes, 1);
  EXPECT_TRUE(target.max_buffers == 0 || target.max_buffers >= 4) << target.max_buffers;
  EXPECT_GE(target.max_block_threads, 1);
  EXPECT_GE(target.shared_bytes, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(target.max_grid[i], 1);
    EXPECT_GE(target.max_block[i], 1);
  }
  ASSERT_FALSE(target.caches.empty());
  for (const CacheLevel& cache : target.caches) {
    EXPECT_GE(cache.bytes, 1 << 10);
    EXPECT_GE(cache.shared_by, 1);
  }
  for (const MatrixInstruction& i : target.matrix_instructions) {
    EXPECT_FALSE(i.name.empty());
    EXPECT_GE(std::min({i.m, i.n, i.k}), 1) << i.name;
    EXPECT_NE(i.sum, DtypeNumber::Void) << i.name;
  }
}

TEST_P(DeviceConformance, AllocatesAlignedMemoryOfEverySize) {
  for (size_t bytes : {1, 63, 64, 65, 4096, 100'000, 3 << 20}) {
    auto buffer = device_->Allocate(bytes, MemoryKind::kHostVisible).value();
    EXPECT_EQ(buffer->size(), bytes);
    EXPECT_EQ(&buffer->device(), device_.get());
    ASSERT_NE(buffer->host_data(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->host_data()) % Buffer::kAlignment, 0u);
    buffer->host_data()[bytes - 1] = std::byte{1};
  }
}

TEST_P(DeviceConformance, ZeroBytesAreABuffer) {
  auto buffer = Allocate(0);
  EXPECT_EQ(buffer->size(), 0u);
  EXPECT_TRUE(stream_->CopyIn({}, *buffer, 0).ok());
  EXPECT_TRUE(stream_->Fill(*buffer, 0, 0, std::byte{1}).ok());
  EXPECT_CODE(stream_->Fill(*buffer, 0, 1, std::byte{1}), kInvalidArgument);
}

TEST_P(DeviceConformance, NewMemoryIsPoisonedOnRequest) {
  {
    Allocate(1000);
  }
  EXPECT_THAT(Read(*Allocate(1000)), Each(std::byte{0xA5}));
}

TEST_P(DeviceConformance, RefusesMoreThanTheLimit) {
  EXPECT_CODE(device_->Allocate(kLimit + 1, MemoryKind::kDevice).status(), kResourceExhausted);
  EXPECT_CODE(device_->Allocate(~size_t{0}, MemoryKind::kDevice).status(), kResourceExhausted);
  auto half = Allocate(kLimit / 2 + 1);
  EXPECT_CODE(device_->Allocate(kLimit / 2, MemoryKind::kDevice).status(), kResourceExhausted);
  half = nullptr;
  auto all = device_->Allocate(kLimit, MemoryKind::kDevice);
  EXPECT_TRUE(all.ok()) << all.status();
}

TEST_P(DeviceConformance, CountsMemory) {
  const MemoryStats before = device_->memory();
  auto buffer = Allocate(10'000);
  EXPECT_GE(device_->memory().used_bytes, before.used_bytes + 10'000);
  buffer = nullptr;
  EXPECT_EQ(device_->memory().used_bytes, before.used_bytes);
  EXPECT_GT(device_->memory().pooled_bytes, 0u);
  buffer = Allocate(10'000);
  EXPECT_EQ(device_->memory().pool_hits, before.pool_hits + 1);
  EXPECT_LE(device_->memory().used_bytes + device_->memory().pooled_bytes, kLimit);
}

TEST_P(DeviceConformance, CopiesWithOffsets) {
  const auto data = Bytes(100);
  auto a = Allocate(100), b = Allocate(50);
  ASSERT_TRUE(stream_->CopyIn(data, *a, 0).ok());
  ASSERT_TRUE(stream_->Fill(*b, 0, 50, std::byte{9}).ok());
  ASSERT_TRUE(stream_->Copy(*a, 20, *b, 5, 30).ok());
  std::vector<std::byte> want(50, std::byte{9});
  std::copy_n(data.begin() + 20, 30, want.begin() + 5);
  EXPECT_THAT(Read(*b), ElementsAreArray(want));

  std::vector<std::byte> part(10);
  ASSERT_TRUE(stream_->CopyOut(*a, 90, part).ok());
  ASSERT_TRUE(stream_->CopyIn(std::span(data).first(3), *a, 97).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_THAT(part, ElementsAreArray(data.begin() + 90, data.end()));
  want = data;
  std::copy_n(data.begin(), 3, want.begin() + 97);
  EXPECT_THAT(Read(*a), ElementsAreArray(want));
}

TEST_P(DeviceConformance, FillsARange) {
  auto buffer = Allocate(10);
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 10, std::byte{1}).ok());
  ASSERT_TRUE(stream_->Fill(*buffer, 3, 4, std::byte{0xff}).ok());
  const auto got = Read(*buffer);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(got[i], std::byte(i >= 3 && i < 7 ? 0xff : 1)) << i;
}

TEST_P(DeviceConformance, RefusesRangesOutsideABuffer) {
  auto a = Allocate(100), b = Allocate(100);
  auto data = Bytes(101);
  const auto span = std::span(data);
  EXPECT_CODE(stream_->CopyIn(span, *a, 0), kInvalidArgument);
  EXPECT_CODE(stream_->CopyIn(span.first(1), *a, 100), kInvalidArgument);
  EXPECT_CODE(stream_->CopyIn(span.first(2), *a, ~size_t{0}),
              kInvalidArgument);  // offset + size wraps
  EXPECT_CODE(stream_->CopyOut(*a, 1, span.first(100)), kInvalidArgument);
  EXPECT_CODE(stream_->Copy(*a, 50, *b, 0, 51), kInvalidArgument);
  EXPECT_CODE(stream_->Copy(*a, 0, *b, 50, 51), kInvalidArgument);
  EXPECT_CODE(stream_->Copy(*a, 1, *b, 1, ~size_t{0}), kInvalidArgument);
  EXPECT_CODE(stream_->Copy(*a, 0, *a, 5, 6), kInvalidArgument);  // overlaps
  EXPECT_TRUE(stream_->Copy(*a, 0, *a, 5, 5).ok());
  EXPECT_CODE(stream_->Fill(*a, 101, 0, std::byte{0}), kInvalidArgument);
  EXPECT_TRUE(stream_->CopyIn(span.first(0), *a, 100).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_P(DeviceConformance, RefusesObjectsOfAnotherDevice) {
  auto other = Open(1);
  ASSERT_NE(other, device_);
  auto theirs = other->Allocate(8, MemoryKind::kDevice).value();
  auto ours = Allocate(8);
  const auto data = Bytes(8);
  EXPECT_CODE(stream_->CopyIn(data, *theirs, 0), kInvalidArgument);
  EXPECT_CODE(stream_->Copy(*ours, 0, *theirs, 0, 8), kInvalidArgument);
  const BufferArg args[] = {{ours.get(), 0}, {theirs.get(), 0}};
  const int64_t vars[] = {1};
  EXPECT_CODE(stream_->Launch(*LoadKernel(*device_), {}, args, vars), kInvalidArgument);
  EXPECT_CODE(stream_->Launch(*LoadKernel(*other), {}, {}, {}), kInvalidArgument);
}

TEST_P(DeviceConformance, ObjectsKeepTheirDeviceOpen) {
  auto buffer = Allocate(16);
  auto kernel = LoadKernel(*device_);
  std::weak_ptr<Device> weak = device_;
  device_ = nullptr;
  registry_ = nullptr;
  stream_ = nullptr;
  EXPECT_FALSE(weak.expired());
  if (buffer->host_data() != nullptr) std::memset(buffer->host_data(), 1, 16);
  buffer = nullptr;
  kernel = nullptr;
  EXPECT_TRUE(weak.expired());
}

TEST_P(DeviceConformance, ServesManyThreads) {
  constexpr int kThreads = 4, kRounds = 100;
  auto kernel = LoadKernel(*device_);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto stream = NewStream();
      for (int i = 0; i < kRounds; ++i) {
        auto a = Allocate(100 + 50 * i), b = Allocate(64);
        std::vector<std::byte> got(a->size());
        const BufferArg args[] = {{a.get(), 0}, {b.get(), 0}};
        const int64_t vars[] = {i};
        EXPECT_TRUE(stream->Fill(*a, 0, a->size(), std::byte(t)).ok());
        EXPECT_TRUE(stream->Launch(*kernel, {}, args, vars).ok());
        EXPECT_TRUE(stream->CopyOut(*a, 0, got).ok());
        EXPECT_TRUE(stream->Synchronize().ok());
        EXPECT_THAT(got, Each(std::byte(t)));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(device_->memory().used_bytes, 0u);
}

constexpr char kNothing[] =
    "define void @k(ptr %buffers, ptr %vars, i64 %thread) {\n  ret void\n}\n";
constexpr char kAdder[] = R"(define void @k(ptr %buffers, ptr %vars, i64 %thread) {
  %second = getelementptr ptr, ptr %buffers, i64 1
  %from = load ptr, ptr %buffers
  %to = load ptr, ptr %second
  %x = load i32, ptr %from
  %y = load i32, ptr %to
  %variable = load i64, ptr %vars
  %z = trunc i64 %variable to i32
  %xy = add i32 %x, %y
  %sum = add i32 %xy, %z
  store i32 %sum, ptr %to
  ret void
}
)";

// A fake of NVIDIA's library. It outlives every thread of the drivers.
tests::FakeCuda& TheFake() {
  static auto* const fake = new tests::FakeCuda;
  return *fake;
}

// The CUDA driver over it.
absl::StatusOr<std::shared_ptr<Device>> OpenFakeCuda(int index, const RegistryOptions& options) {
  static auto* const driver = cuda::CudaDriver::Create(TheFake().Api()).value().release();
  return cuda::CudaDevice::Open({.index = index,
                                 .memory_limit_bytes = options.memory_limit_bytes,
                                 .pattern = options.memory_pattern,
                                 .ptx = true,
                                 .driver = driver,
                                 .ptxc = "/nowhere/uopd-ptxc"});
}

// The driver of AMD over a fake of HIP, which is that of CUDA with other signatures.
absl::StatusOr<std::shared_ptr<Device>> OpenFakeHip(int index, const RegistryOptions& options) {
  static auto* const fake = new tests::FakeHip(TheFake());
  static auto* const driver = hip::HipDriver::Create(fake->Api()).value().release();
  return hip::HipDevice::Open({.index = index,
                               .memory_limit_bytes = options.memory_limit_bytes,
                               .pattern = options.memory_pattern,
                               .graphs = true,
                               .driver = driver,
                               .maybe_compiler = tests::FakeHip::TextCompiler()});
}

constexpr char kNoLines[] = "kernel k\n%0 = LINEAR\n";
constexpr char kLinearAdder[] = R"(kernel k
variables n
%0 = CONST<index> {1}
%1 = STACK<index> %0
%2 = PARAM<i32> %1 {0, GLOBAL}
%3 = PARAM<i32> %1 {1, GLOBAL}
%4 = DEFINE_VAR<index> {0, 9, "n"}
%5 = CAST<i64> %4
%6 = CAST<i32> %5
%7 = CONST<i64> {0}
%8 = INDEX<i32> %2, %7
%9 = LOAD<i32> %8
%10 = INDEX<i32> %3, %7
%11 = LOAD<i32> %10
%12 = ADD<i32> %9, %11
%13 = ADD<i32> %12, %6
%14 = STORE %10, %13
%15 = LINEAR %2, %3, %4, %5, %6, %8, %9, %10, %11, %12, %13, %14
)";

INSTANTIATE_TEST_SUITE_P(
    All, DeviceConformance,
    testing::Values(Case{"NULL", CodeFormat::kC, "nothing"},
                    Case{"NULL", CodeFormat::kC, "nothing", nullptr, 200},
                    Case{"CPU", CodeFormat::kLlvmIr, kNothing, kAdder},
                    Case{"CPU", CodeFormat::kLlvmIr, kNothing, kAdder, 200},
                    Case{"INTERP", CodeFormat::kLinear, kNoLines, kLinearAdder},
                    Case{"INTERP", CodeFormat::kLinear, kNoLines, kLinearAdder, 200},
                    Case{"CUDA", CodeFormat::kPtx, "k nothing 4", "k adder 4", -1, true, nullptr,
                         OpenFakeCuda},
                    Case{"AMD", CodeFormat::kAmdgpuIr, "k nothing 4", "k adder 4", -1, true,
                         nullptr, OpenFakeHip}),
    [](const testing::TestParamInfo<Case>& info) { return NameOf(info.param); });

}  // namespace
}  // namespace uopd::devices
