// SPDX-License-Identifier: MIT
// Running sums of few long rows on devices that run blocks: their kernels on the interpreter of
// kernels for GPUs, against the tensor interpreter.
#include "core/schedule/prepare/split_scan.h"

#include <functional>

#include "core/ir/build.h"
#include "gtest/gtest.h"
#include "tests/support/blocks_schedule.h"
#include "tests/support/lowered_run.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;

// The running sums, products or maxima of an input.
test::BlocksRun ScanOf(Op op, const ir::Dims& dims, int64_t axis, Dtype dtype = Dtype::F32) {
  auto run = test::RunForBlocks(
      [&](ir::UOpContext& ctx, GraphBuilder& g) {
        UOp x = g.Input(dims, dtype);
        // Maxima below zero: padding must not be the largest value.
        if (op == Op::MAX) x = ir::Sub(ctx, x, g.Const(x, 100));
        g.Output(ir::Scan(ctx, op, x, axis));
      },
      tests::BlockTarget(true));
  EXPECT_TRUE(run.ok()) << StatusText(run.status());
  return run.ok() ? *std::move(run) : test::BlocksRun();
}

TEST(SplitScanTest, OneLongRowIsThreeKernels) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64}) {
    const test::BlocksRun run = ScanOf(Op::ADD, {1 << 16}, 0, dtype);
    EXPECT_EQ(run.blocks.size(), 3u);
    EXPECT_GE(run.blocks[0], 4);  // sums of chunks
    EXPECT_EQ(run.blocks[1], 1);  // their running sums
    EXPECT_EQ(test::Difference(run), "");
  }
}

TEST(SplitScanTest, MaximaAndProducts) {
  EXPECT_EQ(test::Difference(ScanOf(Op::MAX, {8192}, 0)), "");
  EXPECT_EQ(test::Difference(ScanOf(Op::MAX, {8192}, 0, Dtype::BF16)), "");
  EXPECT_EQ(test::Difference(ScanOf(Op::MUL, {8192}, 0, Dtype::I64)), "");
}

TEST(SplitScanTest, AnOddLengthIsPadded) {
  for (const Op op : {Op::ADD, Op::MAX}) {
    const test::BlocksRun run = ScanOf(op, {10007}, 0);  // a prime
    EXPECT_GE(run.blocks.size(), 3u);
    EXPECT_EQ(test::Difference(run), "");
  }
}

TEST(SplitScanTest, RowsAndColumns) {
  for (const int64_t axis : {0, 1}) {
    const ir::Dims dims = axis == 0 ? ir::Dims{4096, 5} : ir::Dims{5, 4096};
    const test::BlocksRun run = ScanOf(Op::ADD, dims, axis);
    EXPECT_EQ(run.blocks.size(), 3u);
    EXPECT_EQ(test::Difference(run), "");
  }
}

TEST(SplitScanTest, InPlace) {
  const auto run = test::RunForBlocks(
      [](ir::UOpContext& ctx, GraphBuilder& g) {
        const UOp x = g.Input({8192}, Dtype::I32);
        g.Assign(x, ir::Scan(ctx, Op::ADD, x, 0));
      },
      tests::BlockTarget(true));
  ASSERT_TRUE(run.ok()) << StatusText(run.status());
  EXPECT_EQ(test::Difference(*run), "");
}

// The totals of the chunks of a very long row are cut again.
TEST(SplitScanTest, TotalsOfManyChunks) {
  Target target = tests::BlockTarget(true);
  target.units = 64;
  const auto run = test::RunForBlocks(
      [](ir::UOpContext& ctx, GraphBuilder& g) {
        g.Output(ir::Scan(ctx, Op::ADD, g.Input({1 << 20}, Dtype::I32), 0));
      },
      target);
  ASSERT_TRUE(run.ok()) << StatusText(run.status());
  EXPECT_EQ(run->blocks.size(), 5u);
  EXPECT_GE(run->blocks.back(), 8);
  EXPECT_EQ(test::Difference(*run), "");
}

// Sums of f32 do not get worse with the number of chunks: rounded are what is before a chunk, its
// first term, the sum of the vectors before a result, and the result.
TEST(SplitScanTest, RoundsASumAFewTimesOnly) {
  const auto build = [](bool wide) {
    return [=](ir::UOpContext& ctx, GraphBuilder& g) {
      const UOp x = g.Input({1 << 16}),
                third = ir::Add(ctx, ir::Mul(ctx, x, x), g.Const(x, 1.0 / 3));
      g.Output(ir::Scan(ctx, Op::ADD, wide ? ir::Cast(ctx, third, Dtype::F64) : third, 0));
    };
  };
  const Target target = tests::BlockTarget(true);
  const auto run = test::RunForBlocks(build(false), target),
             exact = test::RunForBlocks(build(true), target);
  ASSERT_TRUE(run.ok() && exact.ok());
  const std::vector<double> got = run->got.back().ToDoubles(),
                            want = exact->want.back().ToDoubles();
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 4 * 0x1p-24 * want[i]) << i;
}

TEST(SplitScanTest, ShortRowsManyRowsAndSmallFloatsStayOneKernel) {
  EXPECT_EQ(ScanOf(Op::ADD, {1024}, 0).blocks.size(), 1u);
  EXPECT_EQ(ScanOf(Op::ADD, {512, 2048}, 1).blocks.size(), 1u);
  EXPECT_EQ(ScanOf(Op::ADD, {4096}, 0, Dtype::F16).blocks.size(), 1u);
  EXPECT_EQ(ScanOf(Op::MUL, {4096}, 0).blocks.size(), 1u);
}

}  // namespace
}  // namespace uopd::schedule
