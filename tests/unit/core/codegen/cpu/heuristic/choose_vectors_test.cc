// SPDX-License-Identifier: MIT
// How many lanes the heuristic gives to kernels whose values have several widths.
#include "core/codegen/opts/choose/heuristic.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::UOp;
using ir::UOpContext;
using tests::KernelBuilder;

constexpr int64_t kElements = 1 << 14;

// Random numbers as the client makes them: out[i] = f32(THREEFRY(stream[0] + i, stream[1]) >> 40).
UOp RandomNumbers(UOpContext& ctx) {
  KernelBuilder b(ctx);
  const UOp i = b.Loop(kElements), stream = b.Buffer(1, Dtype::U64, 2);
  const UOp counter = Add(ctx, b.Load(stream, ctx.Idx(0)), Cast(ctx, i, Dtype::U64));
  const UOp bits = ir::Alu(ctx, ir::Op::THREEFRY, {counter, b.Load(stream, ctx.Idx(1))});
  const UOp high = ir::Alu(ctx, ir::Op::SHR, {bits, ctx.Int(Dtype::U64, 40)});
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, Dtype::F32, kElements), i, Cast(ctx, high, Dtype::F32), {i})});
}

// out = in * in + in, of one dtype.
UOp Squares(UOpContext& ctx, Dtype dtype) {
  KernelBuilder b(ctx);
  const UOp i = b.Loop(kElements), x = b.Load(b.Buffer(1, dtype, kElements), i);
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, dtype, kElements), i, Add(ctx, Mul(ctx, x, x), x), {i})});
}

int64_t LanesOf(UOpContext& ctx, UOp sink) {
  for (const Opt& o : codegen::HeuristicOpts(ctx, sink, tests::WideTarget()))
    if (o.kind == OptKind::kVector) return o.amount;
  return 1;
}

// Nearly all instructions of Threefry work on words of 32 bits, though its result has 64: 8 lanes
// would leave half of each register empty.
TEST(LaneWidthTest, RegistersAreFullWhereTheArithmeticIs) {
  UOpContext ctx;
  EXPECT_EQ(LanesOf(ctx, RandomNumbers(ctx)), 16);
}

TEST(LaneWidthTest, ValuesOfOneWidthFillOneRegister) {
  for (const auto& [dtype, lanes] :
       {std::pair(Dtype::F64, 8), {Dtype::U64, 8}, {Dtype::F32, 16}, {Dtype::I32, 16}}) {
    UOpContext ctx;
    EXPECT_EQ(LanesOf(ctx, Squares(ctx, dtype)), lanes) << ir::Info(dtype).name;
  }
}

TEST(LaneWidthTest, RandomNumbersAreRight) {
  UOpContext ctx;
  tests::Memory memory;
  memory.push_back(tests::SampleBuffer(Dtype::F32, kElements, 1, false));
  memory.push_back(tests::SampleBuffer(Dtype::U64, 2, 2, false));
  for (const auto language : {tests::CompiledText::kC, tests::CompiledText::kLlvmIr}) {
    tests::CheckOptions check;
    check.language = language;
    check.target = tests::WideTarget();
    EXPECT_EQ(tests::CheckKernel(ctx, RandomNumbers(ctx), memory, check).substr(0, 300), "");
  }
}

}  // namespace
}  // namespace uopd
