// SPDX-License-Identifier: MIT
// Kernels: what a launch must fulfil, how it is stopped, and recorded sequences.
#include "tests/conformance/device_conformance.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace uopd::devices {
namespace {

using testing::Each;

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

TEST_P(DeviceConformance, ReplaysWithOtherBuffers) {
  const char* const adder = GetParam().adder;
  std::shared_ptr<const RecordedProgram> program;
  {
    auto kernel =
        device_->Load({GetParam().format, "k", adder ? adder : GetParam().source, {2, 1}}).value();
    std::vector<RecordedLaunch> launches;
    launches.push_back({kernel, {}, {{0, 0}, {1, 4}}, {1}});  // b[1] += a[0] + 1
    launches.push_back({kernel, {}, {{1, 4}, {2, 0}}, {2}});  // c[0] += b[1] + 2
    launches.push_back({kernel, {}, {{2, 0}, {0, 8}}, {3}});  // a[2] += c[0] + 3
    program = device_->Record(3, std::move(launches)).value();
  }  // the recording keeps the kernel
  for (const int32_t start : {10, 20}) {
    std::vector<std::shared_ptr<Buffer>> owners;
    std::vector<Buffer*> buffers;
    for (int i = 0; i < 3; ++i) buffers.push_back(owners.emplace_back(Allocate(12)).get());
    const std::vector<int32_t> values(3, start);  // until the copies are done
    for (Buffer* buffer : buffers) {
      ASSERT_TRUE(stream_->CopyIn(std::as_bytes(std::span(values)), *buffer, 0).ok());
    }
    std::vector<int64_t> durations_ns(3, -1);
    ASSERT_TRUE(stream_->Replay(*program, buffers, durations_ns).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
    EXPECT_GE(*std::min_element(durations_ns.begin(), durations_ns.end()), 0);
    const auto value = [&](int buffer, size_t index) {
      int32_t out;
      std::memcpy(&out, Read(*buffers[static_cast<size_t>(buffer)]).data() + 4 * index, 4);
      return out;
    };
    EXPECT_EQ(value(0, 0), start);
    EXPECT_EQ(value(1, 1), adder ? 2 * start + 1 : start);
    EXPECT_EQ(value(2, 0), adder ? 3 * start + 3 : start);
    EXPECT_EQ(value(0, 2), adder ? 4 * start + 6 : start);
    // Stopped: nothing of it runs.
    auto stop = std::make_shared<StopFlag>();
    stop->Stop();
    ASSERT_TRUE(stream_->Replay(*program, buffers, {}, stop).ok());
    EXPECT_CODE(stream_->Synchronize(), kCancelled);
    EXPECT_EQ(value(0, 2), adder ? 4 * start + 6 : start);
  }
}

TEST_P(DeviceConformance, ChecksRecordingsAndReplays) {
  auto kernel = LoadKernel(*device_);
  const auto record = [&](RecordedLaunch launch) {
    return device_->Record(2, {std::move(launch)}).status();
  };
  EXPECT_TRUE(record({kernel, {}, {{0, 0}, {1, 0}}, {1}}).ok());
  EXPECT_CODE(record({nullptr, {}, {{0, 0}, {1, 0}}, {1}}), kInvalidArgument);
  EXPECT_CODE(record({LoadKernel(*Open(1)), {}, {{0, 0}, {1, 0}}, {1}}), kInvalidArgument);
  EXPECT_CODE(record({kernel, {}, {{0, 0}}, {1}}), kInvalidArgument);
  EXPECT_CODE(record({kernel, {}, {{0, 0}, {1, 0}}, {}}), kInvalidArgument);
  EXPECT_CODE(record({kernel, {}, {{0, 0}, {2, 0}}, {1}}), kInvalidArgument);
  EXPECT_CODE(record({kernel, {}, {{-1, 0}, {1, 0}}, {1}}), kInvalidArgument);
  EXPECT_CODE(record({kernel, {.grid = {0, 1, 1}}, {{0, 0}, {1, 0}}, {1}}), kInvalidArgument);
  auto program = device_->Record(2, {{kernel, {}, {{0, 0}, {1, 8}}, {1}}}).value();
  auto small = Allocate(4), large = Allocate(16);
  auto foreign = Open(1)->Allocate(16, MemoryKind::kDevice).value();
  const auto replay = [&](std::vector<Buffer*> buffers, std::vector<int64_t> times = {}) {
    return stream_->Replay(*program, buffers, times);
  };
  EXPECT_CODE(replay({small.get()}), kInvalidArgument);
  EXPECT_CODE(replay({large.get(), nullptr}), kInvalidArgument);
  EXPECT_CODE(replay({large.get(), small.get()}), kInvalidArgument);
  EXPECT_CODE(replay({foreign.get(), large.get()}), kInvalidArgument);
  EXPECT_CODE(replay({small.get(), large.get()}, {0, 0}), kInvalidArgument);
  Buffer* const buffers[] = {small.get(), large.get()};
  EXPECT_CODE(Open(1)->NewStream().value()->Replay(*program, buffers), kInvalidArgument);
  EXPECT_TRUE(replay({small.get(), large.get()}).ok());
  EXPECT_TRUE(device_->Record(0, {}).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
}

TEST_P(DeviceConformance, ReloadsWhatItCompiled) {
  const Compiler& compiler = device_->compiler();
  const std::string object = compiler.Compile(GetParam().source).value();
  EXPECT_EQ(compiler.Compile(GetParam().source).value(), object);
  auto kernel = device_->Load({CodeFormat::kObject, "k", object, {2, 1}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ((*kernel)->entry(), "k");
  auto buffer = Allocate(16);
  const BufferArg args[] = {{buffer.get(), 0}, {buffer.get(), 0}};
  const int64_t vars[] = {1};
  EXPECT_TRUE(stream_->Launch(**kernel, {}, args, vars).ok());
  EXPECT_TRUE(stream_->Synchronize().ok());
  EXPECT_CODE(compiler.Compile("").status(), kInternal);
}

}  // namespace
}  // namespace uopd::devices
