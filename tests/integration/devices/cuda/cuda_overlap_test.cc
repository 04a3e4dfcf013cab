// SPDX-License-Identifier: MIT
// Copies and kernels of different streams at the same time, and memory that several streams use.
#include <algorithm>
#include <deque>
#include <random>

#include "devices/gpu/gpu_memory.h"
#include "devices/gpu/stream_queue.h"
#include "tests/unit/devices/cuda/cuda_fixture.h"

namespace uopd::devices::cuda {
namespace {

std::vector<std::byte> CountedBytes(size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<std::byte>((i * 37 + i / 4096) % 253);
  return out;
}

class CudaOverlapTest : public CudaTest {
 protected:
  // A kernel that runs on a stream of its own until the guard is destroyed.
  class Running {
   public:
    Running(CudaOverlapTest& test, std::shared_ptr<Buffer> buffer)
        : stream_(test.device_->NewStream().value()), ended_(test.device_->NewSemaphore().value()) {
      EXPECT_TRUE(test.Launch(*stream_, *test.Kernel("spin"), *buffer, stop_).ok());
      EXPECT_TRUE(stream_->Record(ended_, 1).ok());
    }
    ~Running() {
      EXPECT_TRUE(runs()) << "the kernel had ended";
      stop_->Stop();
      EXPECT_CODE(stream_->Synchronize(), kCancelled);
    }
    bool runs() const { return ended_->failure().ok() && ended_->value() == 0; }

   private:
    const std::shared_ptr<StopFlag> stop_ = std::make_shared<StopFlag>();
    const std::unique_ptr<Stream> stream_;
    const std::shared_ptr<Semaphore> ended_;
  };
  bool InUse(Buffer& buffer) {
    return fake_->InUse(static_cast<gpu::GpuBuffer&>(buffer).address(), buffer.size());
  }
};

TEST_F(CudaOverlapTest, CopiesRunWhileAKernelRuns) {
  Open();
  const auto data = CountedBytes((size_t{9} << 20) + 5);
  auto buffer = Allocate(data.size());
  std::vector<std::byte> got(data.size());
  const Running running(*this, Allocate(64));
  ASSERT_TRUE(stream_->CopyIn(data, *buffer, 0).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(running.runs());
  ASSERT_TRUE(stream_->CopyOut(*buffer, 0, got).ok());
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(got == data);
}

TEST_F(CudaOverlapTest, AProgramWaitsForItsUploadAlone) {
  Open();
  auto adder = Kernel("adder");
  auto buffer = Allocate(4);
  auto computing = device_->NewStream().value();
  auto uploaded = device_->NewSemaphore().value();
  const Running running(*this, Allocate(64));
  const int waits = fake_->Calls("cuStreamWaitEvent");
  const int32_t three = 3;
  int32_t sum = 0;
  // The upload waits for the host, so the program is behind it in time; both do not wait for the
  // running kernel.
  auto gate = device_->NewSemaphore().value();
  ASSERT_TRUE(stream_->Wait(gate, 1).ok());
  ASSERT_TRUE(stream_->CopyIn(std::as_bytes(std::span(&three, 1)), *buffer, 0).ok());
  ASSERT_TRUE(stream_->Record(uploaded, 1).ok());
  ASSERT_TRUE(computing->Wait(uploaded, 1).ok());
  ASSERT_TRUE(Launch(*computing, *adder, *buffer).ok());
  ASSERT_TRUE(computing->CopyOut(*buffer, 0, std::as_writable_bytes(std::span(&sum, 1))).ok());
  gate->Signal(1);
  ASSERT_TRUE(computing->Synchronize().ok());
  EXPECT_EQ(sum, 7);
  EXPECT_TRUE(running.runs());
  // With the upload given on at once, the order is the chip's.
  ASSERT_TRUE(stream_->Synchronize().ok());
  ASSERT_TRUE(stream_->CopyIn(std::as_bytes(std::span(&three, 1)), *buffer, 0).ok());
  ASSERT_TRUE(stream_->Record(uploaded, 2).ok());
  ASSERT_TRUE(computing->Wait(uploaded, 2).ok());
  ASSERT_TRUE(Launch(*computing, *adder, *buffer).ok());
  ASSERT_TRUE(computing->CopyOut(*buffer, 0, std::as_writable_bytes(std::span(&sum, 1))).ok());
  ASSERT_TRUE(computing->Synchronize().ok());
  EXPECT_EQ(sum, 7);
  EXPECT_LE(fake_->Calls("cuStreamWaitEvent"), waits + 2);
}

// A large copy behind a long kernel takes no more pinned memory than its pieces under way need.
TEST_F(CudaOverlapTest, ALargeCopyUsesFewPiecesOfPinnedMemory) {
  Open();
  const auto data = CountedBytes(size_t{48} << 20);  // 12 pieces
  auto buffer = Allocate(data.size());
  std::vector<std::byte> got(data.size());
  auto stop = std::make_shared<StopFlag>();
  ASSERT_TRUE(Launch(*stream_, *Kernel("hang"), *buffer).ok());
  const int registered = fake_->Calls("cuMemHostRegister_v2");
  ASSERT_TRUE(stream_->CopyIn(data, *buffer, 0).ok());
  ASSERT_TRUE(stream_->CopyOut(*buffer, 0, got).ok());
  EXPECT_EQ(fake_->Calls("cuMemcpyHtoDAsync_v2"), gpu::StreamQueue::kMostStaged);
  fake_->ReleaseHanging();
  ASSERT_TRUE(stream_->Synchronize().ok());
  EXPECT_TRUE(got == data);
  EXPECT_EQ(fake_->Calls("cuMemcpyHtoDAsync_v2"), 12);
  EXPECT_EQ(fake_->Calls("cuMemcpyDtoHAsync_v2"), 12);
  EXPECT_LE(fake_->Calls("cuMemHostRegister_v2") - registered, gpu::StreamQueue::kMostStaged);
}

// Random work on four streams. Buffers are dropped and given back while the chip still uses them;
// new ones must be memory that no stream uses, and hold what was written to them.
TEST_F(CudaOverlapTest, NoBlockIsUsedAgainBeforeItsLastUserHasEnded) {
  Open();
  std::mt19937 random(7);
  auto slow = Kernel("slow"), nothing = Kernel("nothing");
  struct Owned {
    std::shared_ptr<Buffer> buffer;
    size_t stream = 0;  // that wrote it last, or has waited for who did
    std::byte value{};
  };
  struct Result {
    std::vector<std::byte> got;
    std::byte want;
  };
  constexpr size_t kSizes[] = {256, 4096, 65536}, kStreams = 4;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<devices::TimePoint> points;
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(device_->NewStream().value());
    points.push_back({device_->NewSemaphore().value(), 0});
  }
  std::vector<Owned> owned;
  std::deque<Result> results;
  const auto move_to = [&](Owned& o, size_t to) {  // the next user is another stream
    if (o.stream == to) return;
    ++points[o.stream].value;
    ASSERT_TRUE(streams[o.stream]->Record(std::span(&points[o.stream], 1)).ok());
    ASSERT_TRUE(streams[to]->Wait(std::span(&points[o.stream], 1)).ok());
    o.stream = to;
  };
  int reused = 0;
  std::vector<gpu::GpuPointer> seen;
  for (int step = 0; step < 600; ++step) {
    if (step % 100 == 0) {
      for (const auto& stream : streams) ASSERT_TRUE(stream->Synchronize().ok());
    }
    const size_t s = random() % kStreams;
    Stream& stream = *streams[s];
    const unsigned what = random() % 10;
    if (owned.size() < 4 || (what < 3 && owned.size() < 24)) {
      Owned made{Allocate(kSizes[random() % 3]), s, static_cast<std::byte>(random())};
      ASSERT_FALSE(InUse(*made.buffer)) << "step " << step;
      const auto address = static_cast<gpu::GpuBuffer&>(*made.buffer).address();
      reused += std::ranges::count(seen, address) > 0 ? 1 : 0;
      seen.push_back(address);
      ASSERT_TRUE(stream.Fill(*made.buffer, 0, made.buffer->size(), made.value).ok());
      owned.push_back(std::move(made));
      continue;
    }
    Owned& o = owned[random() % owned.size()];
    move_to(o, s);
    if (what < 5) {
      // Launched with the buffer as an argument, which it keeps in use for a while.
      ASSERT_TRUE(Launch(stream, random() % 4 == 0 ? *slow : *nothing, *o.buffer).ok());
    } else if (what < 7) {
      results.push_back({std::vector<std::byte>(o.buffer->size()), o.value});
      ASSERT_TRUE(stream.CopyOut(*o.buffer, 0, results.back().got).ok());
    } else {
      if (what == 7) {
        ASSERT_TRUE(Launch(stream, *slow, *o.buffer).ok());
      }
      if (random() % 2 == 0) {
        ASSERT_TRUE(stream.Free(std::move(o.buffer)).ok());
      }
      o = std::move(owned.back());
      owned.pop_back();
    }
  }
  for (const auto& stream : streams) EXPECT_TRUE(stream->Synchronize().ok());
  for (const Result& r : results) EXPECT_THAT(r.got, testing::Each(r.want));
  EXPECT_GT(reused, 20);
  EXPECT_TRUE(device_->status().ok());
}

}  // namespace
}  // namespace uopd::devices::cuda
