// SPDX-License-Identifier: MIT
// What the interpreter computes, and that it reports what a chip would not.
#include "core/interp/interpreter.h"

#include <cmath>
#include <random>

#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_lines.h"

namespace uopd::interp {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using testing::HasSubstr;

struct KernelLines : tests::KernelLines {
  using tests::KernelLines::KernelLines;

  absl::Status Run(std::vector<std::vector<int32_t>>& buffers, int64_t threads, int64_t grid = 1,
                   int64_t warp_lanes = 32) {
    const UOp linear = Linear();
    UOPD_TRY(ir::Verify(ctx, linear, ir::Level::kLinear));
    UOPD_ASSIGN(const Program program, Program::Make(ctx, linear, {}));
    std::vector<std::span<std::byte>> spans;
    for (auto& b : buffers) spans.push_back(std::as_writable_bytes(std::span(b)));
    LaunchArguments arguments;
    arguments.grid[0] = grid;
    arguments.block[0] = threads;
    arguments.warp_lanes = warp_lanes;
    arguments.buffers = spans;
    return interp::Run(program, arguments);
  }
};

// Every thread stores to shared memory and loads what its neighbour stored.
absl::Status Reverse(bool barrier, std::vector<std::vector<int32_t>>& buffers) {
  KernelLines k(8);
  const UOp out = k.Param(0, 8), in = k.Param(1, 8), shared = k.Shared(8);
  k.Store(shared, k.thread, k.Load(in, k.thread));
  if (barrier) k.Barrier();
  k.Store(out, k.thread, k.Load(shared, k.Alu(Op::SUB, k.Int(7), k.thread)));
  return k.Run(buffers, 8);
}

TEST(InterpreterTest, ThreadsExchangeThroughSharedMemory) {
  std::vector<std::vector<int32_t>> buffers = {std::vector<int32_t>(8, -1),
                                               {0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_TRUE(Reverse(true, buffers).ok());
  EXPECT_THAT(buffers[0], testing::ElementsAre(7, 6, 5, 4, 3, 2, 1, 0));
}

TEST(InterpreterTest, AMissingBarrierIsARace) {
  std::vector<std::vector<int32_t>> buffers(2, std::vector<int32_t>(8));
  EXPECT_THAT(StatusText(Reverse(false, buffers)), HasSubstr("a race"));
}

TEST(InterpreterTest, AStoreOfWhatOthersStillReadIsARace) {
  KernelLines k(4);
  const UOp out = k.Param(0, 4), shared = k.Shared(4);
  k.Store(shared, k.thread, k.thread);
  k.Barrier();
  k.Store(out, k.thread, k.Load(shared, k.Alu(Op::SUB, k.Int(3), k.thread)));
  k.Store(shared, k.thread, k.Int(5));
  std::vector<std::vector<int32_t>> buffers(1, std::vector<int32_t>(4));
  EXPECT_THAT(StatusText(k.Run(buffers, 4)), HasSubstr("loads: a race"));
}

TEST(InterpreterTest, ThreadsOfDifferentBlocksHaveNoBarriers) {
  KernelLines k(2);
  const UOp out = k.Param(0, 2);
  k.Barrier();
  k.Store(out, k.thread, k.thread);
  std::vector<std::vector<int32_t>> buffers(1, std::vector<int32_t>(2));
  EXPECT_TRUE(k.Run(buffers, 2, 1).ok());
  EXPECT_THAT(StatusText(k.Run(buffers, 2, 2)), HasSubstr("of block 0 stores too: a race"));
}

TEST(InterpreterTest, ReportsWhatLiesOutsideAndWhatWasNotStored) {
  std::vector<std::vector<int32_t>> buffers(1, std::vector<int32_t>(3));
  {
    KernelLines k(4);
    const UOp out = k.Param(0, 3);
    k.Store(out, k.thread, k.thread);
    EXPECT_THAT(StatusText(k.Run(buffers, 4)), HasSubstr("thread 3, line 3"));
  }
  {
    KernelLines k(4);
    const UOp out = k.Param(0, 3);
    const UOp inside = k.Add(ir::Lt(k.ctx, k.thread, k.Int(3)));
    k.Store(out, k.thread, k.thread, inside);
    EXPECT_TRUE(k.Run(buffers, 4).ok());
  }
  KernelLines k(2);
  const UOp out = k.Param(0, 3), shared = k.Shared(4);
  k.Store(shared, k.thread, k.thread);
  k.Barrier();
  k.Store(out, k.thread, k.Load(shared, k.Alu(Op::ADD, k.thread, k.Int(1))));
  EXPECT_THAT(StatusText(k.Run(buffers, 2)), HasSubstr("which no thread has stored"));
}

TEST(InterpreterTest, LoopsHaveOneSizeInABlock) {
  KernelLines k(2);
  const UOp out = k.Param(0, 2);
  const UOp size = k.Alu(Op::ADD, k.thread, k.Int(1));
  const UOp range = k.Range(size);
  k.End(range, k.Store(out, k.thread, range));
  std::vector<std::vector<int32_t>> buffers(1, std::vector<int32_t>(2));
  EXPECT_THAT(StatusText(k.Run(buffers, 2)), HasSubstr("2 iterations, and 1 in thread 0"));
}

TEST(InterpreterTest, ShufflesStayInAWarp) {
  for (const int64_t lanes : {32, 64}) {
    KernelLines k(128);
    const UOp out = k.Param(0, 128);
    k.Store(out, k.thread, k.Shuffle(k.thread, lanes / 2));
    std::vector<std::vector<int32_t>> buffers(1, std::vector<int32_t>(128));
    ASSERT_TRUE(k.Run(buffers, 128, 1, lanes).ok());
    for (int32_t t = 0; t < 128; ++t)
      EXPECT_EQ(buffers[0][static_cast<size_t>(t)], t ^ (lanes / 2));
    EXPECT_FALSE(k.Run(buffers, 128, 1, lanes / 2).ok());  // the mask leaves the warp
  }
}

// The fast loops against the reference evaluator.
TEST(InterpreterTest, AluIsThatOfTheEvaluator) {
  std::mt19937_64 random(3);
  const double floats[] = {0.0, -0.0, 1, -1.5, NAN, INFINITY, -INFINITY, 1e-45, 3.4e38, 1e30, 0.1};
  const int64_t ints[] = {0,    1,   -1,        2,         7,         -7,       127,
                          -128, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  constexpr Dtype kDtypes[] = {Dtype::Bool, Dtype::I8,  Dtype::U8,  Dtype::I16,
                               Dtype::U16,  Dtype::I32, Dtype::U32, Dtype::I64,
                               Dtype::U64,  Dtype::F32, Dtype::F64};
  constexpr Op kOps[] = {Op::ADD,  Op::SUB,   Op::MUL,   Op::AND,   Op::OR,   Op::XOR, Op::CDIV,
                         Op::CMOD, Op::CMPLT, Op::CMPNE, Op::CMPEQ, Op::FDIV, Op::NEG, Op::SQRT};
  const auto sample = [&](Dtype d) {
    if (ir::IsFloat(d)) return ir::Scalar::Float(d, floats[random() % std::size(floats)]);
    if (d == Dtype::Bool) return ir::Scalar::Int(d, static_cast<ir::Int128>(random() & 1));
    return ir::Scalar::Int(d, ints[random() % std::size(ints)]);
  };
  const auto check = [&](Op op, Dtype out, std::vector<Dtype> operands) {
    Instruction in;
    in.op = op;
    in.dtype = out;
    in.src.resize(operands.size());
    in.src_dtypes = operands;
    in.alu = AluOf(in);
    for (int trial = 0; trial < 60; ++trial) {
      std::vector<ir::Scalar> scalars;
      std::vector<Value> values;
      for (Dtype d : operands) {
        scalars.push_back(sample(d));
        Value v;
        if (ir::IsFloat(d)) {
          v.f = scalars.back().f;
        } else {
          v.i = scalars.back().i;
        }
        values.push_back(v);
      }
      const auto want = ir::EvalAlu(op, out, scalars);
      if (!want) continue;
      const Value* src[3] = {};
      for (size_t s = 0; s < values.size(); ++s) src[s] = &values[s];
      Value got;
      in.alu(in, &got, src, 1);
      if (ir::IsFloat(out)) {
        EXPECT_TRUE(got.f == want->f || (std::isnan(got.f) && std::isnan(want->f)))
            << Name(op) << " of " << ir::Name(operands[0]) << ": " << got.f << ", not " << want->f;
      } else {
        EXPECT_EQ(got.i, want->i) << Name(op) << " of " << ir::Name(operands[0]);
      }
    }
  };
  for (Dtype d : kDtypes) {
    for (Op op : kOps) {
      const bool is_int = !ir::IsFloat(d);
      if (ir::kFloatOnlyOps.Has(op) && is_int) continue;
      if (ir::kIntOnlyOps.Has(op) && !is_int) continue;
      const Dtype out = ir::kComparisonOps.Has(op) ? Dtype::Bool : d;
      check(op, out, std::vector<Dtype>(ir::kUnaryOps.Has(op) ? 1 : 2, d));
    }
    check(Op::WHERE, d, {Dtype::Bool, d, d});
    for (Dtype to : kDtypes) check(Op::CAST, to, {d});
  }
}

}  // namespace
}  // namespace uopd::interp
