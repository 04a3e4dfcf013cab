// SPDX-License-Identifier: MIT
// Shapes that are expressions over a variable, taken apart again.
#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/print.h"
#include "core/ir/wire.h"
#include "core/schedule/schedule.h"

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
  const auto kernel = ir::Decode(local, schedule->items[0].graph, ir::Stage::kKernel);
  ASSERT_TRUE(kernel.ok());
  for (UOp u : ir::Toposort(local, *kernel)) {
    if (!u.Is(ir::OpSet{ir::Op::FLOORDIV, ir::Op::FLOORMOD})) continue;
    EXPECT_TRUE(u.src(1).Is(ir::Op::CONST)) << ir::Print(local, *kernel);
  }
}

}  // namespace
}  // namespace uopd::schedule
