// SPDX-License-Identifier: MIT
// BLOCK: a reduced axis cut outside of the loops over tiles, with partial results in an array.
// Against the interpreter, with odd sizes and guarded buffers.
#include <gmock/gmock.h>

#include "core/codegen/opts/choose/heuristic.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/ir/graph.h"
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
using testing::HasSubstr;
using tests::KernelBuilder;
using tests::Memory;
using tests::SampleBuffer;
using tests::WideTarget;

std::string CheckPanels(UOpContext& ctx, UOp kernel, const Memory& memory,
                        const std::vector<Opt>& opts) {
  return tests::CheckOpts(ctx, kernel, memory, opts, 2e-6);
}

Memory MatmulMemory(int64_t m, int64_t n, int64_t k) {
  return {SampleBuffer(Dtype::F32, m * n, 1, true), SampleBuffer(Dtype::F32, m * k, 2, true),
          SampleBuffer(Dtype::F32, k * n, 3, true)};
}

// Panels of one axis, of two and of all; tiles and panels that do not divide; threads; packed
// copies that prefetch.
TEST(BlockTest, KeepsTheProductsOfMatrices) {
  const std::vector<std::vector<Opt>> lists = {
      {{OptKind::kBlock, 2, 8}},
      {{OptKind::kBlock, 0, 0}, {OptKind::kBlock, 2, 3}},
      {{OptKind::kBlock, 0, 2}, {OptKind::kBlock, 1, 5}, {OptKind::kBlock, 2, 7}},
      {{OptKind::kVector, 1, 16},
       {OptKind::kUpcast, 0, 4},
       {OptKind::kBlock, 1, 2},
       {OptKind::kBlock, 0, 0},
       {OptKind::kBlock, 2, 4},
       {OptKind::kPack, 1, 0},
       {OptKind::kPack, 0, 0},
       {OptKind::kPrefetch, 1, 2}},
      {{OptKind::kThread, 1, 2},
       {OptKind::kVector, 1, 8},
       {OptKind::kUpcast, 1, 2},
       {OptKind::kUnroll, 2, 2},
       {OptKind::kBlock, 1, 3},
       {OptKind::kBlock, 2, 5},
       {OptKind::kPack, 0, 0}},
      {{OptKind::kVector, 2, 4}, {OptKind::kBlock, 2, 2}, {OptKind::kBlock, 0, 3}},
      // Without panels of the reduced axis there are no partial sums.
      {{OptKind::kBlock, 0, 2}, {OptKind::kBlock, 1, 4}, {OptKind::kPack, 1, 0}}};
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 77, 40}, {6, 70, 31}, {5, 100, 9}}) {
    for (const std::vector<Opt>& opts : lists) {
      UOpContext ctx;
      const UOp kernel = tests::MatmulKernel(ctx, m, n, k, false, false);
      std::string text;
      for (const Opt& o : opts) text += Text(o) + " ";
      EXPECT_EQ(CheckPanels(ctx, kernel, MatmulMemory(m, n, k), opts), "")
          << m << "x" << n << "x" << k << ": " << text;
    }
  }
}

// A maximum must not see the zeros that a fresh array could hold, and two reductions of one loop
// share the panels.
TEST(BlockTest, KeepsMaximaAndSumsOfOneLoop) {
  UOpContext ctx;
  KernelBuilder b(ctx);
  const UOp i = b.Loop(7), k = b.Reduced(50);
  const UOp x = b.Load(b.Buffer(1, Dtype::F32, 350), b.At(i, 50, k));
  const UOp below = Sub(ctx, x, ctx.Float(Dtype::F32, 100));
  const UOp most = ir::ReduceRanges(ctx, Op::MAX, below, std::span(&k, 1));
  const UOp sum = ir::ReduceRanges(ctx, Op::ADD, x, std::span(&k, 1));
  const UOp kernel =
      b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 7), i, Add(ctx, most, sum), {i})});
  const Memory memory = {SampleBuffer(Dtype::F32, 7, 1, true),
                         SampleBuffer(Dtype::F32, 350, 2, true)};
  for (const std::vector<Opt>& opts :
       {std::vector<Opt>{{OptKind::kBlock, 1, 8}},
        {{OptKind::kUpcast, 0, 3}, {OptKind::kBlock, 0, 2}, {OptKind::kBlock, 1, 12}},
        {{OptKind::kVector, 1, 8}, {OptKind::kBlock, 0, 0}, {OptKind::kBlock, 1, 2}}})
    EXPECT_EQ(CheckPanels(ctx, kernel, memory, opts), "");
}

// Words of a matrix instruction, with and without a correction for signs.
TEST(BlockTest, KeepsProductsOfSmallElements) {
  for (const Dtype d : {Dtype::BF16, Dtype::I8}) {
    const int64_t m = 6, n = 37, k = 50;
    const Dtype sum = d == Dtype::BF16 ? Dtype::F32 : Dtype::I32;
    UOpContext ctx;
    const UOp kernel = tests::WideningMatmulKernel(ctx, m, n, k, false, false, d, d, sum);
    const Memory memory = {SampleBuffer(sum, m * n, 1, true), SampleBuffer(d, m * k, 2, true),
                           SampleBuffer(d, k * n, 3, true)};
    EXPECT_EQ(CheckPanels(ctx, kernel, memory,
                          {{OptKind::kVector, 1, 16},
                           {OptKind::kTensorCore, 2, 0},
                           {OptKind::kUpcast, 0, 3},
                           {OptKind::kBlock, 1, 2},
                           {OptKind::kBlock, 0, 0},
                           {OptKind::kBlock, 2, 4},
                           {OptKind::kPack, 1, 0}}),
              "");
  }
}

// The copy of the matrix is made once for each panel: outside of the loops over rows and tiles.
TEST(BlockTest, TheCopyServesAllTilesOfAPanel) {
  UOpContext ctx;
  const UOp kernel = tests::MatmulKernel(ctx, 8, 256, 64, false, false);
  const std::vector<Opt> opts = {{OptKind::kVector, 1, 16}, {OptKind::kUpcast, 0, 2},
                                 {OptKind::kBlock, 1, 4},   {OptKind::kBlock, 0, 0},
                                 {OptKind::kBlock, 2, 16},  {OptKind::kPack, 1, 0}};
  codegen::Options options;
  options.opts = &opts;
  const auto lowered = codegen::Lower(ctx, kernel, WideTarget(), options);
  ASSERT_TRUE(lowered.ok()) << lowered.status();
  // columns { panels { rows of the copy { tiles } ; tiles { rows { sum } } } ; tiles { rows } }
  std::vector<int> depths;
  int depth = 0, deepest = 0;
  for (UOp u : lowered->linear.srcs()) {
    if (u.Is(Op::RANGE)) deepest = ++depth;
    if (u.Is(Op::END)) {
      if (depth == deepest) depths.push_back(depth);
      --depth;
    }
  }
  EXPECT_EQ(depths, (std::vector<int>{4, 5, 3}));
}

TEST(BlockTest, RefusesWhatItCannotCut) {
  UOpContext ctx;
  const Target target = WideTarget();
  const auto why = [&](UOp kernel, const std::vector<Opt>& opts) {
    codegen::OptPlan plan(ctx, kernel, target);
    std::string last;
    for (const Opt& opt : opts) last = StatusText(plan.Add(opt));
    return last;
  };
  const UOp matmul = tests::MatmulKernel(ctx, 64, 4096, 256, false, false);
  EXPECT_THAT(why(matmul, {{OptKind::kBlock, 2, 8}, {OptKind::kBlock, 2, 2}}),
              HasSubstr("has a BLOCK already"));
  EXPECT_THAT(why(matmul, {{OptKind::kBlock, 2, 8}, {OptKind::kUnroll, 2, 2}}),
              HasSubstr("come before BLOCK"));
  EXPECT_THAT(
      why(matmul, {{OptKind::kBlock, 1, 0}, {OptKind::kBlock, 0, 0}, {OptKind::kBlock, 2, 8}}),
      HasSubstr("would stage 1048576 bytes"));
  EXPECT_THAT(
      why(tests::MatmulKernel(ctx, 8, 8, 64, false, false, Dtype::BF16), {{OptKind::kBlock, 2, 8}}),
      HasSubstr("small floats"));
  KernelBuilder b(ctx);
  const UOp i = b.Loop(8), k = b.Reduced(40), l = b.Reduced(10), x = b.Buffer(1, Dtype::F32, 3200);
  const UOp inner =
      ir::ReduceRanges(ctx, Op::MAX, b.Load(x, b.At(i, 400, b.At(k, 10, l))), std::span(&l, 1));
  const UOp nested =
      b.Kernel({b.StoreLoops(b.Buffer(0, Dtype::F32, 8), i,
                             ir::ReduceRanges(ctx, Op::ADD, inner, std::span(&k, 1)), {i})});
  EXPECT_THAT(why(nested, {{OptKind::kBlock, 1, 8}}), HasSubstr("need another reduction"));
  EXPECT_THAT(why(nested, {{OptKind::kBlock, 2, 2}}), HasSubstr("inside of another reduction"));
}

// Few rows times a matrix that no cache of a thread holds.
TEST(BlockTest, IsChosenForFewRowsOfALargeMatrix) {
  Target target = WideTarget();
  target.caches = {{32 << 10, 1}, {1 << 20, 1}, {32 << 20, 2}};
  target.private_bytes = 1 << 20;
  const auto chosen = [&](int64_t m, int64_t n, int64_t k) {
    UOpContext ctx;
    const UOp kernel = tests::MatmulKernel(ctx, m, n, k, false, false);
    std::vector<OptKind> out;
    for (const Opt& o : codegen::HeuristicOpts(ctx, kernel, target)) {
      if (o.kind == OptKind::kBlock || o.kind == OptKind::kPack || o.kind == OptKind::kPrefetch)
        out.push_back(o.kind);
    }
    return out;
  };
  const std::vector<OptKind> all = {OptKind::kBlock, OptKind::kBlock, OptKind::kBlock,
                                    OptKind::kPack, OptKind::kPrefetch};
  EXPECT_EQ(chosen(32, 4096, 4096), all);
  EXPECT_EQ(chosen(100, 3072, 3072), all);
  // The last cache holds the matrix.
  EXPECT_THAT(chosen(100, 3072, 768), testing::Not(testing::Contains(OptKind::kBlock)));
  // A row alone needs no copy: the next rows of the matrix are prefetched.
  EXPECT_EQ(chosen(1, 4096, 4096), std::vector<OptKind>{OptKind::kPrefetch});
  EXPECT_THAT(chosen(512, 512, 512), testing::Not(testing::Contains(OptKind::kBlock)));
  EXPECT_THAT(chosen(2048, 4096, 4096), testing::Not(testing::Contains(OptKind::kBlock)));
}

}  // namespace
}  // namespace uopd
