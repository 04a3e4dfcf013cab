// SPDX-License-Identifier: MIT
// Long reductions on devices that run blocks: the schedules, and their kernels on the interpreter
// of kernels for GPUs, against the tensor interpreter.
#include "core/schedule/prepare/split_reduce.h"

#include <functional>

#include "core/ir/build.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/schedule/prepare/split_for_blocks.h"
#include "gtest/gtest.h"
#include "tests/support/blocks_schedule.h"
#include "tests/support/lowered_run.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;

using Build = std::function<void(ir::UOpContext&, GraphBuilder&)>;

test::BlocksRun RunGraph(const Build& build) {
  auto run = test::RunForBlocks(build, tests::BlockTarget(true));
  EXPECT_TRUE(run.ok()) << StatusText(run.status());
  return run.ok() ? *std::move(run) : test::BlocksRun();
}

void ExpectSame(const test::BlocksRun& run, double tolerance = 0) {
  EXPECT_FALSE(run.want.empty());
  EXPECT_EQ(test::Difference(run, tolerance), "");
}

TEST(SplitReduceTest, ASumToOneNumberUsesEveryProcessor) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I64}) {
    const test::BlocksRun ran =
        RunGraph([&](auto&, auto& g) { g.Output(g.Sum(g.Input({1 << 16}, dtype), {0})); });
    ASSERT_EQ(ran.blocks.size(), 2u);
    EXPECT_EQ(ran.blocks[0], 8);
    EXPECT_EQ(ran.blocks[1], 1);
    if (dtype != Dtype::F16 && dtype != Dtype::BF16) ExpectSame(ran);
  }
}

TEST(SplitReduceTest, PartialSumsOfSmallFloatsAreNotRounded) {
  // 65536 terms whose sum no bf16 partial sum could hold exactly.
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    const test::BlocksRun small =
        RunGraph([&](auto&, auto& g) { g.Output(g.Sum(g.Input({1 << 16}, dtype), {0})); });
    const test::BlocksRun wide = RunGraph([&](auto& ctx, auto& g) {
      g.Output(
          ir::Cast(ctx, g.Sum(ir::Cast(ctx, g.Input({1 << 16}, dtype), Dtype::F64), {0}), dtype));
    });
    EXPECT_EQ(small.got.back().ToDoubles(), wide.want.back().ToDoubles());
  }
}

TEST(SplitReduceTest, EveryReductionOfAnOddLength) {
  for (const Op op : {Op::ADD, Op::MAX}) {
    for (const Dtype dtype : {Dtype::F32, Dtype::I32, Dtype::U8, Dtype::I64}) {
      const test::BlocksRun ran = RunGraph([&](auto& ctx, auto& g) {
        const int64_t axis = 0;
        const UOp x = g.Input({50021}, dtype);  // a prime
        // All terms are negative: the padding must not be the largest one.
        const UOp below = dtype == Dtype::U8 ? x : ir::Sub(ctx, x, g.Const(x, 100));
        g.Output(ir::ReduceAxes(ctx, op, below, std::span(&axis, 1)));
      });
      EXPECT_EQ(ran.blocks.size(), 2u);
      EXPECT_GT(ran.blocks[0], 1);
      ExpectSame(ran);
    }
  }
}

TEST(SplitReduceTest, ProductsOfAllElements) {
  const test::BlocksRun ran = RunGraph([&](auto& ctx, auto& g) {
    const int64_t axis = 0;
    const UOp x = g.Input({50021}, Dtype::I32),
              odd = ir::Add(ctx, ir::Mul(ctx, x, g.Const(x, 2)), g.Const(x, 1));
    g.Output(ir::ReduceAxes(ctx, Op::MUL, odd, std::span(&axis, 1)));
  });
  EXPECT_EQ(ran.blocks.size(), 2u);
  ExpectSame(ran);
}

TEST(SplitReduceTest, ColumnSums) {
  const test::BlocksRun ran =
      RunGraph([&](auto&, auto& g) { g.Output(g.Sum(g.Input({4096, 40}), {0})); });
  ASSERT_EQ(ran.blocks.size(), 2u);
  EXPECT_GE(ran.blocks[0], 4);
  ExpectSame(ran);
}

TEST(SplitReduceTest, SoftmaxOfOneLongRow) {
  const test::BlocksRun ran =
      RunGraph([&](auto&, auto& g) { g.Output(g.Softmax(g.Input({1, 1 << 16}, Dtype::F64))); });
  // Partial and whole maximum, partial and whole sum, results.
  ASSERT_EQ(ran.blocks.size(), 5u);
  EXPECT_EQ(ran.blocks[0], 8);
  EXPECT_EQ(ran.blocks[2], 8);
  EXPECT_GE(ran.blocks[4], 4);
  ExpectSame(ran, 1e-11);
}

TEST(SplitReduceTest, LayerNormOfFewLongRows) {
  const test::BlocksRun ran =
      RunGraph([&](auto&, auto& g) { g.Output(g.LayerNorm(g.Input({2, 1 << 15}, Dtype::F64))); });
  ASSERT_EQ(ran.blocks.size(), 5u);
  EXPECT_GE(ran.blocks[0], 4);
  EXPECT_GE(ran.blocks[4], 4);
  ExpectSame(ran, 1e-11);
}

// The factors of a product with few tiles and a long sum.
TEST(SplitReduceTest, SplitK) {
  const test::BlocksRun ran = RunGraph([&](auto&, auto& g) {
    g.Output(g.Relu(g.MatMul(g.Input({32, 2048}), g.Input({2048, 32}))));
  });
  ASSERT_EQ(ran.blocks.size(), 2u);
  EXPECT_GE(ran.blocks[0], 4);
  ExpectSame(ran);
}

TEST(SplitReduceTest, ShortReductionsAndManyResultsStayOneKernel) {
  const std::vector<Build> graphs = {
      [](auto&, auto& g) { g.Output(g.Sum(g.Input({4096}), {0})); },
      [](auto&, auto& g) { g.Output(g.Sum(g.Input({64, 4096}), {1})); },
      [](auto&, auto& g) { g.Output(g.Softmax(g.Input({16, 1024}))); },
      [](auto&, auto& g) { g.Output(g.MatMul(g.Input({128, 128}), g.Input({128, 128}))); },
  };
  for (const Build& build : graphs) {
    const test::BlocksRun ran = RunGraph(build);
    EXPECT_EQ(ran.blocks.size(), 1u);
    ExpectSame(ran, 1e-3);
  }
}

// Each block has 1024 numbers that it adds terms to, at most 128 of them in turn.
TEST(SplitReduceTest, ThreadsOfASumAddFewTermsInTurn) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  rewrite::Rewriter simplify(ctx, rules::SymbolicRules(), {});
  Accesses accesses(ctx, simplify);
  KernelLimits limits;
  for (const int units : {1, 2, 100}) {
    limits.units = units;
    for (const int64_t terms : {int64_t{30'000'000}, int64_t{100'000'007}, int64_t{1} << 30}) {
      const auto cut = CutForBlocks(ctx, accesses, g.Sum(g.Input({terms}), {0}), limits);
      ASSERT_TRUE(cut);
      EXPECT_LE(cut->size, 128 * 1024 + 16);
      const auto most = CutForBlocks(ctx, accesses, g.Max(g.Input({terms}), {0}), limits);
      EXPECT_TRUE(most && most->chunks <= 8 * units);  // is exact in any order
    }
  }
}

TEST(SplitReduceTest, TheSameInEveryRun) {
  const Build build = [](auto&, auto& g) { g.Output(g.Sum(g.Exp(g.Input({50021})), {0})); };
  EXPECT_EQ(RunGraph(build).got.back().ToDoubles(), RunGraph(build).got.back().ToDoubles());
}

}  // namespace
}  // namespace uopd::schedule
