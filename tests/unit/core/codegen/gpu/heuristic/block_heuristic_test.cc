// SPDX-License-Identifier: MIT
// What the heuristic chooses for targets with blocks, and that such kernels compute the right
// results.
#include <algorithm>

#include "core/codegen/opts/choose/heuristic.h"
#include "gtest/gtest.h"
#include "tests/support/kernel_check.h"
#include "tests/support/lowered_run.h"

namespace uopd {
namespace {

using codegen::Opt;
using codegen::OptKind;
using ir::Dtype;

// The sums of the columns of a matrix.
ir::UOp ColumnSums(ir::UOpContext& ctx, int64_t rows, int64_t columns) {
  tests::KernelBuilder b(ctx);
  const ir::UOp out = b.Buffer(0, Dtype::F32, columns),
                in = b.Buffer(1, Dtype::F32, rows * columns);
  const ir::UOp column = b.Loop(columns), row = b.Reduced(rows);
  const ir::UOp sum = ir::ReduceRanges(ctx, ir::Op::ADD, b.Load(in, b.At(row, columns, column)),
                                       std::span(&row, 1));
  return b.Kernel({b.StoreLoops(out, column, sum, {column})});
}

bool Has(const std::vector<Opt>& opts, const Opt& opt) {
  return std::ranges::find(opts, opt) != opts.end();
}

// A warp reads 32 neighbours of a row. The other threads of the block take other rows.
TEST(BlockHeuristicTest, ColumnSumsReadWholeLines) {
  const Target target = tests::BlockTarget(true);
  for (const int64_t columns : {40, 1000}) {
    ir::UOpContext ctx;
    const ir::UOp kernel = ColumnSums(ctx, 512, columns);
    const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, kernel, target);
    EXPECT_TRUE(Has(opts, {OptKind::kLocal, 0, 32})) << columns;
    EXPECT_TRUE(Has(opts, {OptKind::kGroup, 1, 8})) << columns;
    tests::CheckOptions check;
    check.target = target;
    check.tolerance = 2e-6;
    const tests::Memory memory = {tests::SampleBuffer(Dtype::F32, columns, 1, true),
                                  tests::SampleBuffer(Dtype::F32, 512 * columns, 2, true)};
    EXPECT_EQ(tests::CheckKernel(ctx, kernel, memory, check).substr(0, 400), "");
  }
}

// One result has no neighbours: all threads of its block add it up.
TEST(BlockHeuristicTest, ASumToOneNumberUsesAllThreads) {
  ir::UOpContext ctx;
  const ir::UOp kernel = ColumnSums(ctx, 4096, 1);
  const std::vector<Opt> opts = codegen::HeuristicOpts(ctx, kernel, tests::BlockTarget(true));
  EXPECT_TRUE(std::ranges::any_of(
      opts, [](const Opt& o) { return o.kind == OptKind::kGroup && o.amount == 256; }));
}

}  // namespace
}  // namespace uopd
