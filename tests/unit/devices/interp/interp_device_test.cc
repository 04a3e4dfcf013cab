// SPDX-License-Identifier: MIT
// INTERP through the interface of devices: results, what a launch reports, both sizes of warps,
// stops.
#include "devices/interp/interp_device.h"

#include <chrono>
#include <ostream>
#include <thread>

#include "core/base/text.h"
#include "core/ir/io/linear_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_lines.h"

namespace uopd::devices::interp {

void PrintTo(const InterpShape& shape, std::ostream* out) { *out << "warp" << shape.warp_lanes; }

namespace {

using ir::Op;
using ir::UOp;
using testing::AllOf;
using testing::HasSubstr;
using tests::KernelLines;
using Ints = std::vector<int32_t>;

class InterpDeviceTest : public testing::TestWithParam<InterpShape> {
 protected:
  void SetUp() override {
    InterpOptions options;
    options.shape = GetParam();
    device_ = InterpDevice::Open(options);
    stream_ = device_->NewStream().value();
  }

  absl::StatusOr<std::shared_ptr<Executable>> Load(KernelLines& k, int buffers) {
    const std::string text = ir::PrintLinear(k.ctx, {k.Linear(), "k", {}});
    UOPD_ASSIGN(std::string object, device_->compiler().Compile(text));
    return device_->Load({CodeFormat::kObject, "k", std::move(object), {buffers, 0}});
  }

  // Runs the kernel over the buffers, which get what it stored.
  absl::Status Run(KernelLines& k, std::vector<Ints>& buffers, int64_t threads, int64_t grid = 1) {
    UOPD_ASSIGN(const auto kernel, Load(k, static_cast<int>(buffers.size())));
    std::vector<std::shared_ptr<Buffer>> owners;
    std::vector<BufferArg> args;
    for (Ints& b : buffers) {
      const auto bytes = std::as_bytes(std::span(b));
      UOPD_ASSIGN(owners.emplace_back(), device_->Allocate(bytes.size(), MemoryKind::kDevice));
      UOPD_TRY(stream_->CopyIn(bytes, *owners.back(), 0));
      args.push_back({owners.back().get(), 0});
    }
    UOPD_TRY(stream_->Launch(*kernel, {{grid, 1, 1}, {threads, 1, 1}, 0}, args, {}));
    UOPD_TRY(stream_->Synchronize());
    for (size_t i = 0; i < buffers.size(); ++i)
      UOPD_TRY(stream_->CopyOut(*owners[i], 0, std::as_writable_bytes(std::span(buffers[i]))));
    return stream_->Synchronize();
  }

  // The report of a kernel with one buffer of `elements` elements.
  std::string ReportOf(KernelLines& k, int64_t threads, size_t elements) {
    std::vector<Ints> buffers = {Ints(elements)};
    const absl::Status status = Run(k, buffers, threads);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    return StatusText(status);
  }

  std::shared_ptr<InterpDevice> device_;
  std::unique_ptr<Stream> stream_;
};

// Each block reverses its part of the input through shared memory.
void Reverse(KernelLines& k, bool barrier) {
  const UOp block = k.Block(3), out = k.Param(0, 192), in = k.Param(1, 192), shared = k.Shared(64);
  const UOp first = k.Alu(Op::MUL, block, k.Int(64));
  const UOp at = k.Alu(Op::ADD, first, k.thread);
  k.Store(shared, k.thread, k.Load(in, at));
  if (barrier) k.Barrier();
  k.Store(out, at, k.Load(shared, k.Alu(Op::SUB, k.Int(63), k.thread)));
}

TEST_P(InterpDeviceTest, BlocksExchangeThroughSharedMemory) {
  KernelLines k(64);
  Reverse(k, true);
  std::vector<Ints> buffers(2, Ints(192));
  for (int32_t i = 0; i < 192; ++i) buffers[1][static_cast<size_t>(i)] = i;
  const absl::Status status = Run(k, buffers, 64, 3);
  ASSERT_TRUE(status.ok()) << StatusText(status);
  for (int32_t i = 0; i < 192; ++i)
    EXPECT_EQ(buffers[0][static_cast<size_t>(i)], i / 64 * 64 + 63 - i % 64);
}

TEST_P(InterpDeviceTest, ReportsARace) {
  KernelLines k(64);
  Reverse(k, false);
  std::vector<Ints> buffers(2, Ints(192));
  const absl::Status status = Run(k, buffers, 64, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(StatusText(status), AllOf(HasSubstr("a race"), HasSubstr("kernel k on INTERP:0")));
}

TEST_P(InterpDeviceTest, ReportsAccessesOutsideOfBuffers) {
  KernelLines store(4), load(4);
  store.Store(store.Param(0, 4), store.Alu(Op::ADD, store.thread, store.Int(1)), store.thread);
  EXPECT_THAT(ReportOf(store, 4, 4),
              AllOf(HasSubstr("stores element 4 of 4"), HasSubstr("thread 3")));
  const UOp out = load.Param(0, 4);
  load.Store(out, load.thread, load.Load(out, load.Alu(Op::SUB, load.thread, load.Int(1))));
  EXPECT_THAT(ReportOf(load, 4, 4), HasSubstr("loads element -1 of 4"));
}

TEST_P(InterpDeviceTest, BuffersAreNoLargerThanTheMemoryThatIsGiven) {
  KernelLines k(4);
  k.Store(k.Param(0, 4), k.thread, k.thread);
  EXPECT_THAT(ReportOf(k, 4, 3), HasSubstr("stores element 3 of 3"));
  // A larger buffer has no more elements than the kernel says.
  KernelLines other(4);
  other.Store(other.Param(0, 3), other.thread, other.thread);
  EXPECT_THAT(ReportOf(other, 4, 8), HasSubstr("stores element 3 of 3"));
}

TEST_P(InterpDeviceTest, ReportsLoadsOfWhatWasNotStored) {
  KernelLines shared(4), own(4);
  {
    KernelLines& k = shared;
    const UOp out = k.Param(0, 4), array = k.Shared(5);
    k.Store(array, k.thread, k.thread);
    k.Barrier();
    k.Store(out, k.thread, k.Load(array, k.Alu(Op::ADD, k.thread, k.Int(1))));
  }
  EXPECT_THAT(ReportOf(shared, 4, 4), HasSubstr("which no thread has stored"));
  {
    KernelLines& k = own;
    const UOp out = k.Param(0, 4), array = k.Private(2);
    k.Store(array, k.Int(0), k.thread);
    k.Store(out, k.thread, k.Load(array, k.Int(1)));
  }
  EXPECT_THAT(ReportOf(own, 4, 4), HasSubstr("which it has not stored"));
}

TEST_P(InterpDeviceTest, ReportsABarrierThatSomeThreadsReachOftener) {
  KernelLines k(4);
  const UOp out = k.Param(0, 4);
  const UOp range = k.Range(k.Alu(Op::ADD, k.thread, k.Int(1)));
  k.Barrier();
  k.End(range, k.Store(out, k.thread, range));
  EXPECT_THAT(ReportOf(k, 4, 4), HasSubstr("2 iterations, and 1 in thread 0"));
}

TEST_P(InterpDeviceTest, ShufflesStayInAWarp) {
  const int64_t lanes = device_->target().warp_lanes;
  KernelLines inside(128), outside(128);
  inside.Store(inside.Param(0, 128), inside.thread, inside.Shuffle(inside.thread, lanes / 2));
  std::vector<Ints> buffers = {Ints(128)};
  const absl::Status status = Run(inside, buffers, 128);
  ASSERT_TRUE(status.ok()) << StatusText(status);
  for (int32_t t = 0; t < 128; ++t)
    EXPECT_EQ(buffers[0][static_cast<size_t>(t)], t ^ static_cast<int32_t>(lanes / 2));
  outside.Store(outside.Param(0, 128), outside.thread, outside.Shuffle(outside.thread, lanes));
  EXPECT_THAT(ReportOf(outside, 128, 128), HasSubstr("leaves a warp"));
}

TEST_P(InterpDeviceTest, LaunchesHaveTheBlocksOfTheKernel) {
  KernelLines k(4);
  k.Store(k.Param(0, 4), k.thread, k.thread);
  std::vector<Ints> buffers = {Ints(4)};
  EXPECT_THAT(StatusText(Run(k, buffers, 2)), HasSubstr("blocks of 2 threads along dimension 0"));
}

TEST_P(InterpDeviceTest, AStreamGoesOnAfterAReport) {
  KernelLines bad(4), good(4);
  bad.Store(bad.Param(0, 4), bad.Int(4), bad.thread);
  EXPECT_THAT(ReportOf(bad, 4, 4), HasSubstr("stores element 4"));
  good.Store(good.Param(0, 4), good.thread, good.thread);
  std::vector<Ints> buffers = {Ints(4)};
  EXPECT_TRUE(Run(good, buffers, 4).ok());
  EXPECT_THAT(buffers[0], testing::ElementsAre(0, 1, 2, 3));
}

TEST_P(InterpDeviceTest, AStopEndsALongLoop) {
  KernelLines k(4);
  const UOp out = k.Param(0, 4);
  const UOp range = k.Range(k.Int(2'000'000'000));
  k.End(range, k.Store(out, k.thread, range));
  const auto kernel = Load(k, 1);
  ASSERT_TRUE(kernel.ok()) << StatusText(kernel.status());
  const auto buffer = device_->Allocate(16, MemoryKind::kDevice).value();
  auto stop = std::make_shared<StopFlag>();
  std::thread stopper([stop] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop->Stop();
  });
  const BufferArg args[] = {{buffer.get(), 0}};
  EXPECT_TRUE(stream_->Launch(**kernel, {{1, 1, 1}, {4, 1, 1}, 0}, args, {}, nullptr, stop).ok());
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kCancelled);
  stopper.join();
}

TEST_P(InterpDeviceTest, RefusesTextsThatAreNoKernels) {
  KernelLines k(4);
  k.Store(k.Param(0, 4), k.thread, k.thread);
  const std::string text = ir::PrintLinear(k.ctx, {k.Linear(), "k", {"n"}});
  const auto refusal = [&](std::string_view source) {
    return StatusText(device_->compiler().Compile(source).status());
  };
  EXPECT_EQ(refusal(text), "");
  EXPECT_THAT(refusal("%0 = LINEAR\n"), HasSubstr("line 1 is not `kernel`"));
  EXPECT_THAT(refusal("kernel k\n%0 = CONST<i32> {1}\n"), HasSubstr("CONST, not LINEAR"));
  EXPECT_THAT(refusal("kernel k\n%0 = SINK\n%1 = LINEAR %0\n"), HasSubstr("SINK"));
  EXPECT_THAT(refusal(text.substr(0, text.size() / 2)), HasSubstr("does not take the kernel"));
  const auto load = [&](const char* entry, int vars) {
    return StatusText(device_->Load({CodeFormat::kLinear, entry, text, {1, vars}}).status());
  };
  EXPECT_EQ(load("k", 1), "");
  EXPECT_THAT(load("other", 1), HasSubstr("no entry \"other\""));
  EXPECT_THAT(load("k", 0), HasSubstr("1 variables"));
  EXPECT_EQ(device_->Load({CodeFormat::kLlvmIr, "k", text, {1, 1}}).status().code(),
            absl::StatusCode::kUnimplemented);
}

INSTANTIATE_TEST_SUITE_P(Shapes, InterpDeviceTest,
                         testing::Values(NvidiaShape(), AmdShape(), HopperShape()),
                         [](const testing::TestParamInfo<InterpShape>& info) {
                           return Cat("Warp", info.param.warp_lanes, "Shared",
                                      info.param.shared_bytes >> 10);
                         });

}  // namespace
}  // namespace uopd::devices::interp
