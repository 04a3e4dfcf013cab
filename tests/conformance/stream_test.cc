// SPDX-License-Identifier: MIT
// The order of streams: semaphores, failures, copies between streams, and what queued work keeps.
#include "tests/conformance/device_conformance.h"

#include <chrono>
#include <thread>
#include <vector>

namespace uopd::devices {
namespace {

using testing::Each;

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

// Free takes its turn behind the work that uses the memory, also when that work fails.
TEST_P(DeviceConformance, FreesInTheOrderOfTheStream) {
  auto kernel = LoadKernel(*device_);
  const int64_t vars[] = {1};
  for (const bool fails : {false, true}) {
    auto gate = NewSemaphore();
    auto stop = std::make_shared<StopFlag>();
    if (fails) stop->Stop();
    ASSERT_TRUE(stream_->Wait(gate, 1).ok());
    auto buffer = stream_->Allocate(4096, MemoryKind::kDevice).value();
    EXPECT_EQ(buffer->size(), 4096u);
    const BufferArg args[] = {{buffer.get(), 0}, {buffer.get(), 0}};
    std::vector<std::byte> got(4096);
    ASSERT_TRUE(stream_->Fill(*buffer, 0, 4096, std::byte{6}).ok());
    ASSERT_TRUE(stream_->CopyOut(*buffer, 0, got).ok());
    ASSERT_TRUE(stream_->Launch(*kernel, {}, args, vars, nullptr, stop).ok());
    ASSERT_TRUE(stream_->Free(std::move(buffer)).ok());
    EXPECT_GE(device_->memory().used_bytes, 4096u);
    gate->Signal(1);
    EXPECT_EQ(stream_->Synchronize().ok(), !fails);
    EXPECT_EQ(device_->memory().used_bytes, 0u);
    EXPECT_THAT(got, Each(std::byte{6}));
  }
  EXPECT_CODE(stream_->Free(nullptr), kInvalidArgument);
  EXPECT_CODE(stream_->Free(Open(1)->Allocate(4, MemoryKind::kDevice).value()), kInvalidArgument);
}

// Work is done inside of the call that queues it, or on another thread, as the device says.
TEST_P(DeviceConformance, IsInlineOrLateAsItSays) {
  auto buffer = device_->Allocate(4, MemoryKind::kHostVisible).value();
  ASSERT_EQ(device_->info().runs_inline, GetParam().force_async_us < 0 && !GetParam().always_late);
  ASSERT_TRUE(stream_->Fill(*buffer, 0, 4, std::byte{1}).ok());
  if (device_->info().runs_inline) {
    EXPECT_EQ(buffer->host_data()[0], std::byte{1});
    return;
  }
  auto gate = NewSemaphore(), done = NewSemaphore();
  const auto here = std::this_thread::get_id();
  std::thread::id there = here;
  ASSERT_FALSE(
      done->ReachedOr(1, [&](const absl::Status&) { there = std::this_thread::get_id(); }));
  ASSERT_TRUE(stream_->Wait(gate, 1).ok());
  ASSERT_TRUE(stream_->Record(done, 1).ok());
  gate->Signal(1);  // runs nothing of the queue on this thread
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_NE(there, here);
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

}  // namespace
}  // namespace uopd::devices
