// SPDX-License-Identifier: MIT
// What every device promises in devices/api, driver by driver. A new driver is one more line at the
// end.
#include "devices/api/device.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <ostream>
#include <thread>

#include "devices/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace uopd::devices {
namespace {

using testing::Each;
using testing::ElementsAreArray;

constexpr size_t kLimit = size_t{64} << 20;

struct Case {
  const char* name;
  ProgramFormat format;
  const char* source;  // a kernel `k` of two buffers and one variable, which writes nothing
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class DeviceConformance : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    RegistryOptions options;
    options.devices = std::string(GetParam().name) + ":0," + GetParam().name + ":1";
    options.memory_limit_bytes = kLimit;
    options.poison = true;
    auto registry = Registry::Create(options);
    ASSERT_TRUE(registry.ok()) << registry.status();
    registry_ = *std::move(registry);
    device_ = Open(0);
    ASSERT_NE(device_, nullptr);
    stream_ = NewStream();
  }

  std::shared_ptr<Device> Open(int index) {
    auto device = registry_->Get(std::string(GetParam().name) + ":" + std::to_string(index));
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? *device : nullptr;
  }
  std::unique_ptr<Stream> NewStream() { return device_->NewStream().value(); }
  std::shared_ptr<Buffer> Allocate(size_t bytes) {
    return device_->Allocate(bytes, MemoryKind::kDevice).value();
  }
  static std::chrono::steady_clock::time_point Later() {
    return std::chrono::steady_clock::now() + std::chrono::seconds(60);
  }
  std::shared_ptr<Semaphore> NewSemaphore() { return device_->NewSemaphore().value(); }
  std::shared_ptr<Executable> LoadKernel(Device& device) {
    return device.Load({GetParam().format, "k", GetParam().source, {2, 1}}).value();
  }

  static std::vector<std::byte> Bytes(size_t n) {
    std::vector<std::byte> out(n);
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>(i * 7 + 1);
    return out;
  }
  std::vector<std::byte> Read(Buffer& buffer) {
    std::vector<std::byte> out(buffer.size());
    EXPECT_TRUE(stream_->CopyOut(buffer, 0, out).ok());
    EXPECT_TRUE(stream_->Synchronize().ok());
    return out;
  }

  std::unique_ptr<Registry> registry_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

#define EXPECT_CODE(expr, want) EXPECT_EQ((expr).code(), absl::StatusCode::want)

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

TEST_P(DeviceConformance, ChecksLaunches) {
  auto kernel = LoadKernel(*device_);
  auto a = Allocate(64), b = Allocate(64);
  const BufferArg args[] = {{a.get(), 0}, {b.get(), 64}};
  const BufferArg null_arg[] = {{a.get(), 0}, {nullptr, 0}};
  const BufferArg outside[] = {{a.get(), 65}, {b.get(), 0}};
  const int64_t vars[] = {5, 6};
  const auto one = std::span(vars).first(1);
  int64_t duration_ns = -1;
  EXPECT_TRUE(stream_->Launch(*kernel, {}, args, one, &duration_ns).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_GE(duration_ns, 0);

  EXPECT_CODE(stream_->Launch(*kernel, {}, std::span(args).first(1), one), kInvalidArgument);
  EXPECT_CODE(stream_->Launch(*kernel, {}, args, vars), kInvalidArgument);
  EXPECT_CODE(stream_->Launch(*kernel, {}, args, {}), kInvalidArgument);
  EXPECT_CODE(stream_->Launch(*kernel, {}, null_arg, one), kInvalidArgument);
  EXPECT_CODE(stream_->Launch(*kernel, {}, outside, one), kInvalidArgument);

  const Target& limits = device_->target();
  for (int i = 0; i < 3; ++i) {
    LaunchShape shape;
    shape.grid[i] = 0;
    EXPECT_CODE(stream_->Launch(*kernel, shape, args, one), kInvalidArgument);
    shape.grid[i] = limits.max_grid[i] + 1;
    EXPECT_CODE(stream_->Launch(*kernel, shape, args, one), kInvalidArgument);
    shape = {};
    shape.block[i] = limits.max_block[i] + 1;
    EXPECT_CODE(stream_->Launch(*kernel, shape, args, one), kInvalidArgument);
  }
  LaunchShape shape;
  shape.shared_bytes = limits.shared_bytes + 1;
  EXPECT_CODE(stream_->Launch(*kernel, shape, args, one), kInvalidArgument);
  shape = {};
  std::copy_n(limits.max_block, 3, shape.block);
  const bool fits =
      limits.max_block[0] * limits.max_block[1] * limits.max_block[2] <= limits.max_block_threads;
  EXPECT_EQ(stream_->Launch(*kernel, shape, args, one).ok(), fits);
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_P(DeviceConformance, OrdersTwoStreamsByASemaphore) {
  auto other = NewStream();
  auto semaphore = NewSemaphore();
  auto buffer = Allocate(4);
  std::vector<std::byte> got(4);
  ASSERT_TRUE(other->Wait(semaphore, 1).ok());
  ASSERT_TRUE(other->CopyOut(*buffer, 0, got).ok());
  ASSERT_TRUE(other->Record(semaphore, 2).ok());
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{3}).ok());
  EXPECT_LT(semaphore->value(), 2u);
  ASSERT_TRUE(stream_->Record(semaphore, 1).ok());
  ASSERT_TRUE(stream_->Wait(semaphore, 2).ok());
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{4}).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  ASSERT_TRUE(other->Synchronize().ok());
  EXPECT_THAT(got, Each(std::byte{3}));
  EXPECT_THAT(Read(*buffer), Each(std::byte{4}));
}

TEST_P(DeviceConformance, PingPongsBetweenTwoThreads) {
  auto ping = NewSemaphore(), pong = NewSemaphore();
  auto buffer = Allocate(8);
  auto other = NewStream();
  constexpr uint64_t kRounds = 200;
  std::vector<std::byte> seen(kRounds);
  std::thread thread([&] {
    for (uint64_t i = 1; i <= kRounds; ++i) {
      EXPECT_TRUE(other->Wait(ping, i).ok());
      EXPECT_TRUE(other->CopyOut(*buffer, 0, std::span(seen).subspan(i - 1, 1)).ok());
      EXPECT_TRUE(other->Record(pong, i).ok());
    }
    EXPECT_TRUE(other->Synchronize().ok());
  });
  for (uint64_t i = 1; i <= kRounds; ++i) {
    EXPECT_TRUE(stream_->Fill(*buffer, 0, 8, static_cast<std::byte>(i)).ok());
    EXPECT_TRUE(stream_->Record(ping, i).ok());
    EXPECT_TRUE(stream_->Wait(pong, i).ok());
  }
  EXPECT_TRUE(stream_->Synchronize().ok());
  thread.join();
  for (uint64_t i = 1; i <= kRounds; ++i) EXPECT_EQ(seen[i - 1], static_cast<std::byte>(i));
}

TEST_P(DeviceConformance, HostSignalsAndWaits) {
  auto semaphore = NewSemaphore();
  auto done = NewSemaphore();
  ASSERT_TRUE(stream_->Wait(semaphore, 7).ok());
  ASSERT_TRUE(stream_->Record(done, 1).ok());
  const auto now = std::chrono::steady_clock::now();
  EXPECT_CODE(done->Wait(1, now), kDeadlineExceeded);
  semaphore->Signal(7);
  EXPECT_TRUE(done->Wait(1, now + std::chrono::seconds(60)).ok());
  semaphore->Signal(3);
  EXPECT_EQ(semaphore->value(), 7u);
}

TEST_P(DeviceConformance, QueuedWorkKeepsWhatItNeeds) {
  auto gate = NewSemaphore();
  auto result = Allocate(16);
  int64_t duration_ns = -1;
  {
    auto source = Allocate(16);
    auto kernel = LoadKernel(*device_);
    const BufferArg args[] = {{source.get(), 0}, {result.get(), 0}};
    const int64_t vars[] = {1};
    ASSERT_TRUE(stream_->Wait(gate, 1).ok());
    ASSERT_TRUE(stream_->Fill(*source, 0, 16, std::byte{42}).ok());
    ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars, &duration_ns).ok());
    ASSERT_TRUE(stream_->Copy(*source, 0, *result, 0, 16).ok());
  }  // buffer and kernel are dropped while queued
  const size_t used = device_->memory().used_bytes;
  std::vector<std::shared_ptr<Buffer>> others;
  for (int i = 0; i < 8; ++i)
    others.push_back(Allocate(16));  // would reuse the memory if it were free
  EXPECT_EQ(duration_ns, -1);
  gate->Signal(1);
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_GE(duration_ns, 0);
  EXPECT_THAT(Read(*result), Each(std::byte{42}));
  for (auto& other : others) EXPECT_THAT(Read(*other), Each(std::byte{0xA5}));
  others.clear();
  EXPECT_LT(device_->memory().used_bytes, used);
}

TEST_P(DeviceConformance, SkipsLaunchesThatAreStoppedBeforeTheyBegin) {
  auto kernel = LoadKernel(*device_);
  auto buffer = Allocate(16);
  const BufferArg args[] = {{buffer.get(), 0}, {buffer.get(), 0}};
  const int64_t vars[] = {1};
  auto stop = std::make_shared<StopFlag>(), other = std::make_shared<StopFlag>();
  EXPECT_TRUE(stream_->Launch(*kernel, {}, args, vars, nullptr, stop).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  stop->Stop();
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 16, std::byte{1}).ok());
  int64_t duration_ns = -1;
  EXPECT_TRUE(stream_->Launch(*kernel, {}, args, vars, &duration_ns, stop).ok());
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 16, std::byte{2}).ok());
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_EQ(duration_ns, -1);
  EXPECT_THAT(Read(*buffer), Each(std::byte{1}));
  // Once: the stream is as new, and other launches never had to do with it.
  EXPECT_TRUE(stream_->Launch(*kernel, {}, args, vars, &duration_ns, other).ok());
  EXPECT_TRUE(stream_->Launch(*kernel, {}, args, vars).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_GE(duration_ns, 0);
}

TEST_P(DeviceConformance, StopsLaunchesThatAreQueued) {
  auto gate = NewSemaphore(), done = NewSemaphore();
  auto kernel = LoadKernel(*device_);
  auto buffer = Allocate(16);
  const BufferArg args[] = {{buffer.get(), 0}, {buffer.get(), 0}};
  const int64_t vars[] = {1};
  auto stop = std::make_shared<StopFlag>();
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 16, std::byte{1}).ok());
  ASSERT_TRUE(stream_->Wait(gate, 1).ok());
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars, nullptr, stop).ok());
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 16, std::byte{2}).ok());
  ASSERT_TRUE(stream_->Record(done, 1).ok());
  stop->Stop();
  stop.reset();  // the launch keeps its flag
  gate->Signal(1);
  EXPECT_CODE(stream_->Synchronize(), kCancelled);
  EXPECT_CODE(done->Wait(1, Later()), kCancelled);  // nobody waits for ever
  EXPECT_EQ(done->value(), 0u);
  EXPECT_THAT(Read(*buffer), Each(std::byte{1}));
}

// From the stream that fails to the one that waits for it, and to the one that waits for that.
TEST_P(DeviceConformance, AFailureTravelsToWhoeverWaits) {
  auto first = NewSemaphore(), second = NewSemaphore(), fine = NewSemaphore();
  auto other = NewStream(), last = NewStream();
  auto kernel = LoadKernel(*device_);
  auto buffer = Allocate(16);
  const BufferArg args[] = {{buffer.get(), 0}, {buffer.get(), 0}};
  const int64_t vars[] = {1};
  auto stop = std::make_shared<StopFlag>();
  stop->Stop();
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 16, std::byte{1}).ok());
  ASSERT_TRUE(stream_->Record(fine, 1).ok());
  const TimePoint both[] = {{fine, 1}, {first, 1}};
  ASSERT_TRUE(other->Wait(both).ok());
  ASSERT_TRUE(other->Fill(*buffer, 0, 16, std::byte{2}).ok());
  ASSERT_TRUE(other->Record(second, 1).ok());
  ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars, nullptr, stop).ok());
  ASSERT_TRUE(stream_->Record(first, 1).ok());
  ASSERT_TRUE(last->Wait(second, 1).ok());  // after the failure, or before
  ASSERT_TRUE(last->Fill(*buffer, 0, 16, std::byte{3}).ok());
  EXPECT_CODE(second->Wait(1, Later()), kCancelled);
  EXPECT_TRUE(fine->Wait(1, Later()).ok());
  for (Stream* stream : {stream_.get(), other.get(), last.get()}) {
    EXPECT_CODE(stream->Synchronize(), kCancelled);
    EXPECT_TRUE(stream->Synchronize().ok());  // once
  }
  EXPECT_THAT(Read(*buffer), Each(std::byte{1}));
  const TimePoint bad[] = {{fine, 1}, {nullptr, 1}};
  EXPECT_CODE(stream_->Wait(bad), kInvalidArgument);
  EXPECT_CODE(stream_->Record(bad), kInvalidArgument);
}

TEST_P(DeviceConformance, CopiesFromAnotherStreamInItsOrder) {
  auto source = NewStream();
  auto gate = NewSemaphore();
  auto from = Allocate(64), to = Allocate(64);
  ASSERT_TRUE(source->Fill(*from, 0, 64, std::byte{1}).ok());
  ASSERT_TRUE(source->Wait(gate, 1).ok());
  ASSERT_TRUE(source->Fill(*from, 0, 32, std::byte{2}).ok());
  ASSERT_TRUE(stream_->CopyFrom(*source, *from, 16, *to, 0, 32).ok());
  ASSERT_TRUE(stream_->CopyFrom(*source, *from, 0, *to, 0, 0).ok());
  ASSERT_TRUE(source->Fill(*from, 0, 64, std::byte{3}).ok());  // comes too late for the copy
  ASSERT_TRUE(stream_->Copy(*to, 16, *to, 48, 16).ok());
  gate->Signal(1);
  ASSERT_TRUE(stream_->Synchronize().ok());
  const std::vector<std::byte> got = Read(*to);
  EXPECT_THAT(std::span(got).subspan(0, 16), Each(std::byte{2}));
  EXPECT_THAT(std::span(got).subspan(16, 16), Each(std::byte{1}));
  EXPECT_THAT(std::span(got).subspan(32, 16), Each(std::byte{0xA5}));
  EXPECT_THAT(std::span(got).subspan(48, 16), Each(std::byte{1}));
  ASSERT_TRUE(source->Synchronize().ok());
  EXPECT_CODE(stream_->CopyFrom(*source, *from, 60, *to, 0, 8), kInvalidArgument);
  EXPECT_CODE(stream_->CopyFrom(*source, *from, 0, *to, 60, 8), kInvalidArgument);
}

// Whichever stream has failed, the memory in between outlives what is queued.
TEST_P(DeviceConformance, ACopyFromAStreamThatFailsIsAFailure) {
  auto kernel = LoadKernel(*device_);
  const int64_t vars[] = {1};
  for (const bool source_fails : {true, false}) {
    auto source = NewStream(), target = NewStream();
    auto from = Allocate(64), to = Allocate(64);
    const BufferArg args[] = {{from.get(), 0}, {to.get(), 0}};
    auto gate = NewSemaphore();
    auto stop = std::make_shared<StopFlag>();
    stop->Stop();
    ASSERT_TRUE(source->Wait(gate, 1).ok());
    Stream& fails = source_fails ? *source : *target;
    ASSERT_TRUE(fails.Launch(*kernel, {}, args, vars, nullptr, stop).ok());
    ASSERT_TRUE(target->CopyFrom(*source, *from, 0, *to, 0, 64).ok());
    gate->Signal(1);
    EXPECT_CODE(target->Synchronize(), kCancelled);
    EXPECT_EQ(source->Synchronize().ok(), !source_fails);
    EXPECT_THAT(Read(*to), Each(std::byte{0xA5}));
  }
}

TEST_P(DeviceConformance, QueuedWorkSurvivesItsStream) {
  auto gate = NewSemaphore(), done = NewSemaphore();
  auto buffer = Allocate(16);
  {
    auto stream = NewStream();
    ASSERT_TRUE(stream->Wait(gate, 1).ok());
    ASSERT_TRUE(stream->Fill(*buffer, 0, 16, std::byte{5}).ok());
    ASSERT_TRUE(stream->Record(done, 1).ok());
  }
  gate->Signal(1);
  ASSERT_TRUE(done->Wait(1, std::chrono::steady_clock::now() + std::chrono::seconds(60)).ok());
  EXPECT_THAT(Read(*buffer), Each(std::byte{5}));
}

TEST_P(DeviceConformance, ADestroyedSemaphoreAbortsTheStream) {
  auto gate = NewSemaphore(), done = NewSemaphore();
  auto buffer = Allocate(4);
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{1}).ok());
  ASSERT_TRUE(stream_->Wait(gate, 1).ok());
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{2}).ok());
  ASSERT_TRUE(stream_->Record(done, 1).ok());
  gate = nullptr;
  EXPECT_CODE(stream_->Synchronize(), kAborted);
  EXPECT_CODE(done->Wait(1, Later()), kAborted);  // nobody waits for ever
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_THAT(Read(*buffer), Each(std::byte{1}));
}

TEST_P(DeviceConformance, ReloadsWhatItCompiled) {
  const Compiler& compiler = device_->compiler();
  const std::string object = compiler.Compile(GetParam().source).value();
  EXPECT_EQ(compiler.Compile(GetParam().source).value(), object);
  auto kernel = device_->Load({ProgramFormat::kObject, "k", object, {0, 0}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->entry(), "k");
  EXPECT_TRUE(stream_->Launch(**kernel, {}, {}, {}).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_CODE(compiler.Compile("").status(), kInternal);
}

TEST_P(DeviceConformance, ObjectsKeepTheirDeviceOpen) {
  auto buffer = Allocate(16);
  auto kernel = LoadKernel(*device_);
  std::weak_ptr<Device> weak = device_;
  device_ = nullptr;
  registry_ = nullptr;
  stream_ = nullptr;
  EXPECT_FALSE(weak.expired());
  std::memset(buffer->host_data(), 1, 16);
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

INSTANTIATE_TEST_SUITE_P(
    All, DeviceConformance,
    testing::Values(Case{"NULL", ProgramFormat::kC, "nothing"},
                    Case{
                        "CPU", ProgramFormat::kLlvmIr,
                        "define void @k(ptr %buffers, ptr %vars, i64 %thread) {\n  ret void\n}\n"}),
    [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace uopd::devices
