// SPDX-License-Identifier: MIT
// The opt PREFETCH: a load that fetches the next row as well.
#include <algorithm>

#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/graph.h"
#include "core/render/formats.h"
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using tests::KernelBuilder;

// out (rows x columns) = in - the sum of its row: two passes over each row.
UOp MinusRowSum(UOpContext& ctx, int64_t rows, int64_t columns) {
  KernelBuilder b(ctx);
  const int64_t n = rows * columns;
  const UOp i = b.Loop(rows), j = b.Loop(columns), k = b.Reduced(columns);
  const UOp x = b.Buffer(1, Dtype::F32, n);
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, b.Load(x, b.At(i, columns, k)), {&k, 1});
  const UOp at = b.At(i, columns, j);
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, Dtype::F32, n), at, Sub(ctx, b.Load(x, at), sum), {i, j})});
}

std::string TextOfPrefetching(UOpContext& ctx, UOp sink, const std::vector<Opt>& opts) {
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, sink, tests::WideTarget(), options);
  if (!lowered.ok()) return StatusText(lowered.status());
  const auto text = render::RenderLlvmIr(ctx, lowered->linear, "k", lowered->variables);
  return text.ok() ? *text : StatusText(text.status());
}

// The number of the load of the row's elements in the second pass.
int SecondPass(UOpContext& ctx, UOp sink) {
  const std::vector<UOp> reads = codegen::Reads(ctx, sink);
  EXPECT_EQ(reads.size(), 2u);
  const UOp k = codegen::Axes(ctx, sink)[2];
  return ir::Reaches(ctx, reads[0], k) ? 1 : 0;
}

TEST(PrefetchTest, FetchesTheNextRow) {
  UOpContext ctx;
  const UOp sink = MinusRowSum(ctx, 40, 64);
  const int read = SecondPass(ctx, sink);
  EXPECT_THAT(
      TextOfPrefetching(ctx, sink, {{OptKind::kVector, 1, 16}, {OptKind::kPrefetch, read, 0}}),
      HasSubstr("i64 64\n  call void @llvm.prefetch.p0"));
  // Where one iteration computes four rows, the next ones are four rows further.
  EXPECT_THAT(
      TextOfPrefetching(
          ctx, sink,
          {{OptKind::kVector, 1, 16}, {OptKind::kPrefetch, read, 0}, {OptKind::kUpcast, 0, 4}}),
      HasSubstr("i64 256\n  call void @llvm.prefetch.p0"));
}

// The last row prefetches beyond the end of the buffer, where there is no memory.
TEST(PrefetchTest, KeepsResultsAndNeverFaults) {
  UOpContext ctx;
  const UOp sink = MinusRowSum(ctx, 5, 96);
  for (const int64_t upcast : {1, 2}) {
    const std::vector<Opt> opts = {{OptKind::kVector, 1, 16},
                                   {OptKind::kPrefetch, 0, 0},
                                   {OptKind::kPrefetch, 1, 0},
                                   {OptKind::kUpcast, 0, upcast}};
    tests::CheckOptions check;
    check.target = tests::WideTarget();
    check.options.opts = &opts;
    check.tolerance = 2e-6;
    check.language = tests::CompiledText::kLlvmIr;
    const tests::Memory memory = {tests::SampleBuffer(Dtype::F32, 480, 1, true),
                                  tests::SampleBuffer(Dtype::F32, 480, 2, true)};
    EXPECT_EQ(CheckKernel(ctx, sink, memory, check), "") << upcast;
  }
}

TEST(PrefetchTest, RefusesWhatHasNoNextRow) {
  UOpContext ctx;
  const UOp sink = MinusRowSum(ctx, 40, 64);
  const Target target = tests::WideTarget();
  codegen::OptPlan plan(ctx, sink, target);
  const int second = SecondPass(ctx, sink), first = 1 - second;
  const auto why = [&](const Opt& opt) { return StatusText(plan.Add(opt)); };
  EXPECT_THAT(why({OptKind::kPrefetch, 2, 0}), HasSubstr("the kernel has 2 loads"));
  EXPECT_THAT(why({OptKind::kPrefetch, 0, 3}), HasSubstr("the kernel has 3 axes"));
  EXPECT_THAT(why({OptKind::kPrefetch, 0, 2}), HasSubstr("the axis is reduced"));
  EXPECT_THAT(why({OptKind::kPrefetch, first, 1}), HasSubstr("no stride along the axis"));
  EXPECT_TRUE(plan.Add({OptKind::kPrefetch, second, 0}).ok());
  EXPECT_THAT(why({OptKind::kPrefetch, second, 0}), HasSubstr("prefetches already"));
}

TEST(PrefetchTest, IsChosenForAllPassesOverLongRows) {
  UOpContext ctx;
  Target target = tests::WideTarget();
  target.caches = {{32 << 10, 1}, {1 << 20, 1}, {16 << 20, 2}};
  const auto prefetches = [&](int64_t rows, int64_t columns) {
    const UOp sink = MinusRowSum(ctx, rows, columns);
    const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, sink, target);
    const auto chosen = [&](int pass) {
      return std::ranges::count(opts, Opt{OptKind::kPrefetch, pass, 0}) == 1;
    };
    const int second = SecondPass(ctx, sink);
    EXPECT_EQ(chosen(second), chosen(1 - second)) << "one pass alone";
    return chosen(second);
  };
  EXPECT_TRUE(prefetches(1024, 1024));
  EXPECT_FALSE(prefetches(1024, 128)) << "all rows fit in the cache";
  EXPECT_FALSE(prefetches(64, 1 << 17)) << "a row does not";
}

// C (rows x columns) = A B in f32, with A and B in bf16, and B in words of two neighbours along the
// depth, as kept weights are. Slots: C, A, B.
UOp WordsProduct(UOpContext& ctx, int64_t rows, int64_t columns, int64_t depth) {
  KernelBuilder b(ctx);
  const UOp i = b.Loop(rows), j = b.Loop(columns), pair = b.Reduced(depth / 2), half = b.Reduced(2);
  const UOp x = b.Load(b.Buffer(1, Dtype::BF16, rows * depth), b.At(i, depth, b.At(pair, 2, half)));
  const UOp word = b.Load(b.Buffer(2, Dtype::U32, columns * depth / 2), b.At(pair, columns, j));
  const UOp shift = ir::Mul(ctx, ir::Cast(ctx, half, Dtype::U32), ctx.Int(Dtype::U32, 16));
  const UOp bits = ir::Cast(ctx, ir::Alu(ctx, Op::SHR, {word, shift}), Dtype::U16);
  const UOp weight = ir::Bitcast(ctx, bits, Dtype::BF16);
  const UOp sum = ir::ReduceRanges(
      ctx, Op::ADD, Mul(ctx, ir::Cast(ctx, x, Dtype::F32), ir::Cast(ctx, weight, Dtype::F32)),
      std::vector<UOp>{pair, half});
  return b.Kernel(
      {b.StoreLoops(b.Buffer(0, Dtype::F32, rows * columns), b.At(i, columns, j), sum, {i, j})});
}

TEST(PrefetchTest, IsChosenForWordsThatFewTilesReadInPieces) {
  using enum DtypeNumber;
  UOpContext ctx;
  Target target = tests::WideTarget();
  target.caches = {{32 << 10, 1}, {1 << 20, 1}, {16 << 20, 2}};
  target.matrix_instructions = {{"avx512_bf16", 1, 16, 2, BF16, BF16, F32}};
  // The slots whose loads prefetch.
  const auto prefetched = [&](UOp sink) {
    const std::vector<UOp> reads = codegen::Reads(ctx, sink);
    std::vector<int64_t> slots;
    for (const Opt& o : codegen::HeuristicOpts(ctx, sink, target)) {
      if (o.kind == OptKind::kPrefetch)
        slots.push_back(reads[static_cast<size_t>(o.axis)].src(0).src(0).slot());
    }
    return slots;
  };
  const auto words = [&](int64_t rows, int64_t columns, int64_t depth) {
    return prefetched(WordsProduct(ctx, rows, columns, depth));
  };
  EXPECT_THAT(words(49, 512, 512), ElementsAre(2));
  EXPECT_THAT(words(49 * 64, 512, 512), IsEmpty()) << "many tiles read the same words";
  EXPECT_THAT(words(49, 512, 64), IsEmpty()) << "the words are few";
  EXPECT_THAT(words(49, 16, 16384), IsEmpty()) << "one vector is a whole row";
  EXPECT_THAT(prefetched(tests::MatmulKernel(ctx, 49, 512, 512, false, false)), IsEmpty())
      << "sums of f32 take longer than their operands";
}

}  // namespace
}  // namespace uopd
