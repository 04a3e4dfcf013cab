// SPDX-License-Identifier: MIT
// Rendered LLVM IR compiled and run by the CPU device, with its threads, against the interpreter.
#include <chrono>
#include <cmath>
#include <thread>

#include "core/render/llvm_ir.h"
#include "devices/cpu/cpu_device.h"
#include "gtest/gtest.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using devices::BufferArg;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using tests::KernelBuilder;
using tests::LoadScalar;
using tests::Memory;
using tests::SampleBuffer;

class LlvmIrRunTest : public testing::Test {
 protected:
  // Lowers for the device and runs it over the memory.
  void Run(UOpContext& ctx, UOp sink, Memory& memory,
           const std::map<std::string, int64_t>& variables = {}) {
    Target target = device_->target();
    target.threads = 3;
    auto k = codegen::Lower(ctx, sink, target, {});
    ASSERT_TRUE(k.ok()) << k.status();
    auto text = render::RenderLlvmIr(ctx, k->linear, k->name, k->variables);
    ASSERT_TRUE(text.ok()) << text.status();
    devices::KernelCode kernel_code{
        CodeFormat::kLlvmIr,
        k->name,
        *text,
        {static_cast<int>(memory.size()), static_cast<int>(k->variables.size())}};
    auto executable = device_->Load(kernel_code);
    ASSERT_TRUE(executable.ok()) << executable.status() << *text;
    std::vector<std::shared_ptr<devices::Buffer>> buffers;
    std::vector<BufferArg> args;
    for (const auto& m : memory) {
      buffers.push_back(device_->Allocate(m.size(), devices::MemoryKind::kDevice).value());
      ASSERT_TRUE(stream_->CopyIn(std::as_bytes(std::span(m)), *buffers.back(), 0).ok());
      args.push_back({buffers.back().get(), 0});
    }
    std::vector<int64_t> vars;
    for (const auto& v : k->variables) vars.push_back(variables.at(v));
    grid_ = k->launch.grid[0].Evaluate(vars);
    ASSERT_TRUE(stream_->Launch(**executable, {{grid_, 1, 1}}, args, vars).ok());
    for (size_t i = 0; i < memory.size(); ++i)
      ASSERT_TRUE(
          stream_->CopyOut(*buffers[i], 0, std::as_writable_bytes(std::span(memory[i]))).ok());
    ASSERT_TRUE(stream_->Synchronize().ok());
  }

  std::shared_ptr<devices::cpu::CpuDevice> device_ =
      devices::cpu::CpuDevice::Open({.threads = 3}).value();
  std::unique_ptr<devices::Stream> stream_ = device_->NewStream().value();
  int64_t grid_ = 0;
};

// What would run for days ends soon after its flag is set.
TEST_F(LlvmIrRunTest, ALongKernelStops) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp out = b.Buffer(0, Dtype::F32, 3), i = b.Loop(3), r = b.Reduced(int64_t{1} << 42);
  const UOp x = ctx.Make(Op::CAST, Dtype::F32, {ir::Add(ctx, r, i)});
  const UOp sum =
      ir::ReduceRanges(ctx, Op::ADD, ctx.Make(Op::SIN, Dtype::F32, {x}), std::array<UOp, 1>{r});
  const UOp sink = b.Kernel({b.StoreLoops(out, i, sum, {i})});
  Target target;
  target.threads = 3;
  auto k = codegen::Lower(ctx, sink, target, {});
  ASSERT_TRUE(k.ok()) << k.status();
  EXPECT_TRUE(k->polls);
  EXPECT_GT(k->estimate_ns, 1e12);
  const auto text = render::RenderLlvmIr(ctx, k->linear, k->name, k->variables);
  ASSERT_TRUE(text.ok()) << text.status();
  auto executable = device_->Load({CodeFormat::kLlvmIr, k->name, *text, {1, 0}});
  ASSERT_TRUE(executable.ok()) << executable.status();
  auto buffer = device_->Allocate(12, devices::MemoryKind::kDevice).value();
  const BufferArg args[] = {{buffer.get(), 0}};
  auto stop = std::make_shared<devices::StopFlag>();
  std::chrono::steady_clock::time_point stopped;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // let it run for a while
    stopped = std::chrono::steady_clock::now();
    stop->Stop();
  });
  ASSERT_TRUE(
      stream_
          ->Launch(**executable, {{k->launch.grid[0].Evaluate({}), 1, 1}}, args, {}, nullptr, stop)
          .ok());
  EXPECT_EQ(stream_->Synchronize().code(), absl::StatusCode::kCancelled);
  const auto late = std::chrono::steady_clock::now() - stopped;
  stopper.join();
  RecordProperty("late_us", static_cast<int>(late / std::chrono::microseconds(1)));
  EXPECT_LT(late, std::chrono::seconds(2));
}

TEST_F(LlvmIrRunTest, MatmulOnThreads) {
  UOpContext ctx;
  const UOp k = tests::MatmulKernel(ctx, 96, 64, 50, false, false);
  Memory got = {SampleBuffer(Dtype::F32, 96 * 64, 1, true),
                SampleBuffer(Dtype::F32, 96 * 50, 2, true),
                SampleBuffer(Dtype::F32, 64 * 50, 3, true)};
  Memory want = got;
  Run(ctx, k, got);
  EXPECT_GT(grid_, 1);
  tests::Interpret(ctx, k, want);
  for (size_t i = 0; i < 96 * 64; ++i) {
    EXPECT_NEAR(LoadScalar(Dtype::F32, &got[0][4 * i]).f, LoadScalar(Dtype::F32, &want[0][4 * i]).f,
                1e-4)
        << i;
  }
}

TEST_F(LlvmIrRunTest, CallsWhatTheDeviceProvides) {
  // f64 transcendentals and half precision go through libm and libgcc.
  for (Dtype d : {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F8E5M2}) {
    UOpContext ctx;
    KernelBuilder b(ctx);
    const UOp i = b.Loop(67), x = b.Load(b.Buffer(1, d, 67), i);
    UOp v = x;
    for (Op op : {Op::SIN, Op::EXP2, Op::LOG2, Op::SQRT}) v = Add(ctx, v, ir::Alu(ctx, op, {x}));
    v = Add(ctx, v, ir::Alu(ctx, Op::POW, {x, ctx.Float(d, 1.5)}));
    const UOp k = b.Kernel({b.StoreLoops(b.Buffer(0, d, 67), i, v, {i})});
    const auto bytes = static_cast<size_t>(ir::ByteSize(d));
    Memory got = {std::vector<uint8_t>(67 * bytes), {}};
    for (int at = 0; at < 67; ++at) {
      got[1].resize(got[1].size() + bytes);
      tests::StoreScalar(ir::Scalar::Float(d, 0.25 + at * 0.05),
                         &got[1][static_cast<size_t>(at) * bytes]);
    }
    Memory want = got;
    Run(ctx, k, got);
    tests::Interpret(ctx, k, want);
    const double tolerance = d == Dtype::F64      ? 1e-14
                             : d == Dtype::F32    ? 1e-5
                             : d == Dtype::F8E5M2 ? 0.3
                                                  : 2e-2;
    for (size_t at = 0; at < 67; ++at) {
      const double w = LoadScalar(d, &want[0][at * bytes]).f;
      EXPECT_NEAR(LoadScalar(d, &got[0][at * bytes]).f, w, tolerance * std::max(1.0, std::abs(w)))
          << ir::Name(d) << " " << at;
    }
  }
}

TEST_F(LlvmIrRunTest, SymbolicSizes) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp n = ir::Variable(ctx, "n", 1, 100), i = b.Loop(n);
  const UOp k =
      b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::I32, 100), i,
                             Add(ctx, Cast(ctx, i, Dtype::I32), ctx.Int(Dtype::I32, 1)), {i})});
  Memory got = {std::vector<uint8_t>(400, 0)};
  Run(ctx, k, got, {{"n", 37}});
  for (int at = 0; at < 100; ++at)
    EXPECT_EQ(LoadScalar(Dtype::I32, &got[0][static_cast<size_t>(at) * 4]).i, at < 37 ? at + 1 : 0);
}

TEST_F(LlvmIrRunTest, AttentionInOneKernel) {
  // The last one takes all the memory that a thread may stage.
  for (tests::AttentionShape s : {tests::AttentionShape{2, 9, 40, 64},
                                  {3, 8, 100, 24, Dtype::F32, true},
                                  {3, 1, 77, 128},
                                  {4, 7, 50, 16, Dtype::F32, false, true},
                                  {1, 1, 65536, 1}}) {
    UOpContext ctx;
    const UOp k = tests::AttentionKernel(ctx, s);
    const int64_t rows = s.heads * s.queries * s.depth, keys = s.heads * s.keys * s.depth;
    Memory got = {SampleBuffer(Dtype::F32, rows, 1, true), SampleBuffer(Dtype::F32, rows, 2, true),
                  SampleBuffer(Dtype::F32, keys, 3, true), SampleBuffer(Dtype::F32, keys, 4, true)};
    Memory want = got;
    std::map<std::string, int64_t> variables;
    if (s.symbolic) variables["keys"] = s.keys - 7;
    Run(ctx, k, got, variables);
    tests::Interpret(ctx, k, want, variables);
    for (size_t i = 0; i < static_cast<size_t>(rows); ++i) {
      ASSERT_NEAR(LoadScalar(Dtype::F32, &got[0][4 * i]).f,
                  LoadScalar(Dtype::F32, &want[0][4 * i]).f, 2e-5)
          << s.keys << " keys, element " << i;
    }
  }
}

}  // namespace
}  // namespace uopd
