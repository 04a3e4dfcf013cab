// SPDX-License-Identifier: MIT
// Shapes that are expressions over a variable, taken apart again; and what that means for memory,
// which has the largest of every size.
#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::UOp;

// (2, n, 4) as (8, n): the row is divided by four, nothing by n.
TEST(SymbolicReshapeTest, MultiplesOfASizeDivide) {
  ir::UOpContext ctx;
  const UOp n = ir::Variable(ctx, "n", 1, 64), zero = ctx.Idx(0);
  auto shape = [&](std::initializer_list<UOp> dims) { return ir::ShapeArg(ctx, dims); };
  const UOp x = ir::Param(ctx, 0, Dtype::F32, shape({ctx.Idx(2), ctx.Idx(64), ctx.Idx(4)}));
  const UOp out = ir::Param(ctx, 1, Dtype::F32, shape({ctx.Idx(8), ctx.Idx(64)}));
  const UOp part =
      ir::Shrink(ctx, x, shape({zero, zero, zero}), shape({ctx.Idx(2), n, ctx.Idx(4)}));
  const UOp rows = ir::Reshape(ctx, part, shape({ctx.Idx(8), n}));
  const UOp where = ir::Shrink(ctx, out, shape({zero, zero}), shape({ctx.Idx(8), n}));
  const UOp store = ir::Store(ctx, where, rows);
  const auto schedule = MakeSchedule(ctx, ir::Sink(ctx, std::span(&store, 1)), {});
  ASSERT_TRUE(schedule.ok()) << StatusText(schedule.status());
  ASSERT_EQ(schedule->items.size(), 1);
  ir::UOpContext local;
  const auto kernel = ir::Decode(local, schedule->items[0].graph, ir::Level::kKernel);
  ASSERT_TRUE(kernel.ok());
  for (UOp u : ir::Toposort(local, *kernel)) {
    if (!u.Is(ir::OpSet{ir::Op::FLOORDIV, ir::Op::FLOORMOD})) continue;
    EXPECT_TRUE(u.src(1).Is(ir::Op::CONST)) << ir::Print(local, *kernel);
  }
}

// A copy moves bytes as they lie. Rows of a size that varies are apart in memory; in the RESHAPE
// they follow each other.
class CopiedReshape : public ::testing::Test {
 protected:
  // The value of `from` in the shape `to`, copied to another device and stored there.
  Schedule Made(std::initializer_list<UOp> from, std::initializer_list<UOp> to) {
    const UOp x = ir::Param(ctx_, 0, Dtype::I32, ir::ShapeArg(ctx_, from), "CPU:0");
    const UOp rows = ir::Reshape(ctx_, x, ir::ShapeArg(ctx_, to));
    const UOp copy =
        ctx_.Make(ir::Op::COPY, Dtype::I32, {rows}, ctx_.Data(std::span<const int64_t>(), "CPU:1"));
    const UOp out = ir::Param(ctx_, 1, Dtype::I32, ir::ShapeArg(ctx_, to), "CPU:1");
    const UOp store = ir::Store(ctx_, out, copy);
    auto made = MakeSchedule(ctx_, ir::Sink(ctx_, std::span(&store, 1)), {});
    EXPECT_TRUE(made.ok()) << StatusText(made.status());
    return made.ok() ? *std::move(made) : Schedule();
  }

  ir::UOpContext ctx_;
  const UOp n_ = ir::Variable(ctx_, "n", 1, 6), four_ = ctx_.Idx(4);
  const UOp rows_ = ir::Mul(ctx_, four_, n_);
};

TEST_F(CopiedReshape, RowsThatAreApartAreBroughtTogetherFirst) {
  const Schedule schedule = Made({four_, n_, four_}, {rows_, four_});
  // The rows that are brought together are cleared before: the copy takes all of their memory.
  ASSERT_EQ(schedule.items.size(), 3u);
  EXPECT_EQ(schedule.items[0].kind, schedule::Item::kClear);
  EXPECT_EQ(schedule.items[2].kind, schedule::Item::kCopy);
  std::vector<double> values;
  for (int i = 0; i < 4 * 6 * 4; ++i) values.push_back(i);
  const auto ran = test::RunSchedule(schedule,
                                     {test::HostArray::Of(Dtype::I32, {4, 6, 4}, values),
                                      test::HostArray::Zeros(Dtype::I32, {24, 4})},
                                     {{"n", 2}});
  ASSERT_TRUE(ran.ok()) << StatusText(ran.status());
  const std::vector<double> got = (*ran)[1].ToDoubles();
  for (size_t row = 0; row < 4; ++row) {
    for (size_t i = 0; i < 8; ++i) EXPECT_EQ(got[row * 8 + i], static_cast<double>(row * 24 + i));
  }
}

TEST_F(CopiedReshape, AFirstSizeThatVariesKeepsRowsTogether) {
  EXPECT_EQ(Made({n_, four_}, {rows_}).items.size(), 1);
  EXPECT_EQ(Made({four_, n_, four_}, {four_, rows_}).items.size(), 1);
  EXPECT_EQ(Made({four_, n_}, {four_, ctx_.Idx(1), n_}).items.size(), 1);
}

}  // namespace
}  // namespace uopd::schedule
