// SPDX-License-Identifier: MIT
// Copies of kernels without reductions that share loads: a step of a sorting network computes the
// smaller and the larger of two elements.
#include "core/codegen/opts/choose/heuristic.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;
using ir::Op;
using ir::UOp;
using ir::UOpContext;
using ::testing::Contains;
using ::testing::Not;
using tests::KernelBuilder;

// out[i, j, k] = j < 1 ? min(in[i, 0, k], in[i, 1, k]) : max(...); i < rows, j < 2, k < columns.
UOp SortStep(UOpContext& ctx, int64_t rows, int64_t columns) {
  KernelBuilder b(ctx);
  const int64_t n = 2 * rows * columns;
  const UOp i = b.Loop(rows), j = b.Loop(2), k = b.Loop(columns), in = b.Buffer(1, Dtype::F32, n);
  const auto element = [&](UOp of) { return b.At(b.At(i, 2, of), columns, k); };
  const UOp x = b.Load(in, element(ctx.Idx(0))), y = b.Load(in, element(ctx.Idx(1)));
  const UOp less = ir::Lt(ctx, x, y), first = ir::Lt(ctx, j, ctx.Idx(1));
  const auto where = [&](UOp c, UOp t, UOp e) { return ir::Alu(ctx, Op::WHERE, {c, t, e}); };
  const UOp value = where(first, where(less, x, y), where(less, y, x));
  return b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, n), element(j), value, {i, j, k})});
}

TEST(SharedCopiesTest, BothResultsOfAStepComeFromTheSameLoads) {
  for (const int64_t columns : {16, 64, 1024}) {
    UOpContext ctx;
    const UOp sink = SortStep(ctx, 128, columns);
    EXPECT_THAT(codegen::HeuristicOpts(ctx, sink, tests::WideTarget()),
                Contains(Opt{OptKind::kUpcast, 1, 2}))
        << columns;
  }
}

// Results that lie between each other become vectors in LLVM: VECTOR would store them lane by lane.
TEST(SharedCopiesTest, InterleavedResultsAreLeftToLlvm) {
  for (const int64_t columns : {1, 2}) {
    UOpContext ctx;
    const UOp sink = SortStep(ctx, 4096, columns);
    EXPECT_THAT(codegen::HeuristicOpts(ctx, sink, tests::WideTarget()),
                Not(Contains(::testing::Field(&Opt::kind, OptKind::kVector))))
        << columns;
  }
}

TEST(SharedCopiesTest, ResultsAreTheSame) {
  for (const int64_t columns : {1, 2, 16, 40}) {
    UOpContext ctx;
    const int64_t rows = columns < 16 ? 131 : 5;
    const UOp sink = SortStep(ctx, rows, columns);
    tests::Memory memory;
    for (const uint64_t seed : {1, 2})
      memory.push_back(tests::SampleBuffer(Dtype::F32, 2 * rows * columns, seed, false));
    tests::CheckOptions check;
    check.language = tests::CompiledText::kLlvmIr;
    check.target = tests::WideTarget();
    EXPECT_EQ(tests::CheckKernel(ctx, sink, memory, check).substr(0, 300), "") << columns;
  }
}

// A bias that many rows share is no reason to copy them all.
TEST(SharedCopiesTest, LongAxesAreNotCopied) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(64), k = b.Loop(256), at = b.At(i, 256, k);
  const UOp sum = Add(ctx, b.Load(b.Buffer(1, Dtype::F32, 64 * 256), at),
                      b.Load(b.Buffer(2, Dtype::F32, 256), k));
  const UOp sink = b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 64 * 256), at, sum, {i, k})});
  EXPECT_THAT(codegen::HeuristicOpts(ctx, sink, tests::WideTarget()),
              Not(Contains(::testing::Field(&Opt::axis, 0))));
}

}  // namespace
}  // namespace uopd
