// SPDX-License-Identifier: MIT
// Rendered LLVM IR compiled and run by the CPU device, with its threads, against the interpreter.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/codegen/opts/opt.h"
#include "core/ir/io/print.h"
#include "core/render/formats.h"
#include "devices/cpu/cpu_compiler.h"
#include "devices/cpu/cpu_device.h"
#include "devices/cpu/cpu_target.h"
#include "gtest/gtest.h"
#include "tests/support/attention_kernel.h"
#include "tests/support/compiled_kernel.h"
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

template <class T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values) {
  std::vector<uint8_t> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

class LlvmIrRunTest : public testing::Test {
 protected:
  // Lowers for the device and runs it over the memory. With `opts`: exactly these.
  void Run(UOpContext& ctx, UOp sink, Memory& memory,
           const std::map<std::string, int64_t>& variables = {},
           const std::vector<codegen::Opt>* opts = nullptr) {
    Target target = device_->target();
    target.threads = 3;
    auto k = codegen::Lower(ctx, sink, target, {.opts = opts});
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
    const LaunchShape shape = {{grid_, 1, 1}, {1, 1, 1}, k->launch.shared_bytes};
    ASSERT_TRUE(stream_->Launch(**executable, shape, args, vars).ok());
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
  EXPECT_LT(late, std::chrono::minutes(2)) << "of days";
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

// out[i] = x[0] + ... + x[i]
UOp RunningSums(UOpContext& ctx, Dtype d, int64_t n) {
  KernelBuilder b(ctx);
  const UOp i = b.Loop(n), x = b.Load(b.Buffer(1, d, n), i);
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, d, n), i, ir::ScanRanges(ctx, Op::ADD, x, {&i, 1}), {i})});
}

// The blocks of a row belong to different threads, which pass the sum of all before on: a thread
// that does not wait for it misses what the others have added up. Floats have the same bits in
// every run, whichever thread is faster.
TEST_F(LlvmIrRunTest, RunningSumsOnThreads) {
  for (const int64_t n : {int64_t{1} << 20, (int64_t{1} << 20) + 37}) {
    for (const int64_t blocks : {3, 24}) {
      const std::vector<codegen::Opt> opts = {{codegen::OptKind::kThread, 0, blocks}};
      std::vector<int32_t> x(static_cast<size_t>(n)), want(x.size());
      std::vector<float> f(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<int32_t>(i * 2654435761 % 1001) - 500;
        f[i] = static_cast<float>(x[i]) / 7;
      }
      std::partial_sum(x.begin(), x.end(), want.begin());
      Memory first;
      for (int run = 0; run < 5; ++run) {
        SCOPED_TRACE(testing::Message() << n << " elements, run " << run);
        UOpContext ctx;
        Memory integers = {std::vector<uint8_t>(x.size() * 4, 0xAA), BytesOf(x)};
        Run(ctx, RunningSums(ctx, Dtype::I32, n), integers, {}, &opts);
        EXPECT_EQ(grid_, blocks);
        EXPECT_TRUE(integers[0] == BytesOf(want));
        Memory floats = {std::vector<uint8_t>(x.size() * 4, 0xAA), BytesOf(f)};
        Run(ctx, RunningSums(ctx, Dtype::F32, n), floats, {}, &opts);
        if (first.empty()) first = floats;
        EXPECT_TRUE(floats == first);
        double sum = 0;
        for (size_t i = 0; i < f.size(); ++i) {
          sum += f[i];
          if (i % 1009 == 0 || i + 1 == f.size()) {
            ASSERT_NEAR(LoadScalar(Dtype::F32, &floats[0][4 * i]).f, sum, 1e-4) << i;
          }
        }
      }
    }
  }
}

// A thread whose predecessor never comes leaves the kernel when the launch is stopped, and stores
// nothing.
TEST(StoppedScanTest, AThreadThatWaitsStops) {
  for (const auto language : {tests::CompiledText::kC, tests::CompiledText::kLlvmIr}) {
    constexpr size_t kElements = 4096;
    UOpContext ctx;
    Target target;
    target.threads = 2;
    target.shared_bytes = 1 << 10;
    const std::vector<codegen::Opt> opts = {{codegen::OptKind::kThread, 0, 2}};
    const auto k =
        codegen::Lower(ctx, RunningSums(ctx, Dtype::I32, kElements), target, {.opts = &opts});
    ASSERT_TRUE(k.ok()) << k.status();
    const auto text = language == tests::CompiledText::kC
                          ? render::RenderC(ctx, k->linear, k->name, k->variables)
                          : render::RenderLlvmIr(ctx, k->linear, k->name, k->variables);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto compiled = tests::CompiledText::Compile(language, *text);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    std::vector<uint64_t> shared(static_cast<size_t>(k->launch.shared_bytes / 8));
    std::vector<int32_t> out(kElements, -7), x(kElements, 1);
    std::atomic<uint32_t> stop = 0;
    void* buffers[] = {shared.data(), &stop, out.data(), x.data()};
    std::atomic<bool> ended = false;
    std::thread second([&] {
      (*compiled)->Find(k->name)(buffers + 2, nullptr, 1);
      ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ended);
    stop = 1;
    second.join();
    EXPECT_EQ(out, std::vector<int32_t>(kElements, -7));
  }
}

// Machines with AMX are rare. Everywhere, the compiler must select its instructions, with operands
// in the right order: tdpbf16ps or tdpfp16ps tmm0, tmm4, tmm6 and the end of the function.
TEST(TileInstructionsTest, AreCompiled) {
  auto cpu = devices::cpu::MakeCpuTarget(
      "+amx-bf16,+amx-fp16,+amx-int8,+amx-tile,+avx2,+avx512bf16,+avx512bw,+avx512dq,+avx512f,+"
      "avx512vl,+f16c,+fma");
  if (cpu.arch != "x86_64") GTEST_SKIP() << "tiles of another processor";
  const auto compiler = devices::cpu::CpuCompiler::Create(cpu);
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  UOpContext ctx;
  Target target = tests::WideTarget();
  target.matrix_instructions = tests::TileInstructions(tests::CompiledText::kC);
  for (const auto& [d, product] : {std::pair{Dtype::BF16, "\xC4\xE2\x4A\x5C\xC4"},
                                   std::pair{Dtype::F16, "\xC4\xE2\x4B\x5C\xC4"}}) {
    const UOp kernel =
        tests::WideningMatmulKernel(ctx, 64, 64, 128, false, false, d, d, Dtype::F32);
    const auto k = codegen::Lower(ctx, kernel, target, {});
    ASSERT_TRUE(k.ok()) << k.status();
    const auto text = render::RenderLlvmIr(ctx, k->linear, k->name, k->variables);
    ASSERT_TRUE(text.ok()) << text.status();
    for (const bool draft : {false, true}) {
      const auto object = draft ? (*compiler)->CompileDraft(*text) : (*compiler)->Compile(*text);
      ASSERT_TRUE(object.ok()) << object.status();
      EXPECT_NE(object->find(product), std::string::npos) << Name(d);
      EXPECT_NE(object->find("\xC4\xE2\x78\x49\xC0"), std::string::npos);
    }
  }
}

TEST_F(LlvmIrRunTest, CallsWhatTheDeviceProvides) {
  // What a processor has no instruction for, such as conversions of half precision, goes through
  // libm and libgcc.
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

// b0[i, j] = sin(b1[j]) in row 0, else 0. One vector is kept for all rows, and read under two
// gates: that of the row and that of the elements that there are.
TEST_F(LlvmIrRunTest, GatesOfKeptVectors) {
  UOpContext ctx;
  const UOp kernel = ir::Parse(ctx, R"(
%0 = CONST<index> {24}
%1 = STACK<index> %0
%2 = PARAM<f32> %1 {0, GLOBAL}
%3 = CONST<index> {3}
%4 = RANGE<index> %3 {0, LOOP}
%5 = CONST<index> {8}
%6 = MUL<index> %4, %5
%7 = DEFINE_VAR<index> {1, 8, "n"}
%8 = RANGE<index> %7 {1, LOOP}
%9 = ADD<index> %6, %8
%10 = INDEX<f32> %2, %9
%11 = STACK<index> %5
%12 = PARAM<f32> %11 {1, GLOBAL}
%13 = RANGE<index> %7 {2, REDUCE}
%14 = INDEX<f32> %12, %13
%15 = LOAD<f32> %14
%16 = SIN<f32> %15
%17 = CONST<bool> {true}
%18 = STAGE<f32> %16, %13, %17, %13 {8}
%19 = CONST<index> {1}
%20 = CMPLT<bool> %4, %19
%21 = INDEX<f32> %18, %8, %20
%22 = LOAD<f32> %21
%23 = STORE %10, %22
%24 = END %23, %4, %8
%25 = SINK %24 {}
)")
                         .value();
  const auto opts = codegen::ParseOpts("VECTOR(1, 8) VECTOR(2, 8)").value();
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  Memory memory = {BytesOf(std::vector<float>(24, 7)), BytesOf(x)};
  Run(ctx, kernel, memory, {{"n", 5}}, &opts);
  for (size_t i = 0; i < 24; ++i) {
    const double want = i % 8 >= 5 ? 7 : i < 8 ? std::sin(x[i]) : 0;
    EXPECT_NEAR(LoadScalar(Dtype::F32, &memory[0][4 * i]).f, want, 1e-6) << i;
  }
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
