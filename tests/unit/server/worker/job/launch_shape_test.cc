// SPDX-License-Identifier: MIT
#include "server/worker/job/launch_shape.h"

#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/context.h"

namespace uopd::worker {
namespace {

TEST(LaunchShapeTest, IsEvaluatedForTheValuesOfALaunch) {
  ir::UOpContext ctx;
  const std::vector<std::string> variables = {"n"};
  const ir::UOp n = ir::Variable(ctx, "n", 0, 100);
  const ir::UOp blocks =
      ir::Alu(ctx, ir::Op::FLOORDIV, {ir::Add(ctx, n, ctx.Idx(31)), ctx.Idx(32)});
  codegen::LaunchGeometry geometry;
  geometry.grid[0] = *codegen::LaunchSize::Of(blocks, variables);
  geometry.grid[1] = 4;
  geometry.block[0] = 32;
  geometry.shared_bytes = 512;
  int64_t value = 33;
  const devices::LaunchShape shape = ShapeOf(geometry, std::span(&value, 1));
  EXPECT_EQ(shape.grid[0], 2);
  EXPECT_EQ(shape.grid[1], 4);
  EXPECT_EQ(shape.grid[2], 1);
  EXPECT_EQ(shape.block[0], 32);
  EXPECT_EQ(shape.shared_bytes, 512);
  EXPECT_FALSE(IsEmpty(shape));
  for (const int64_t none : {0, -100}) {
    EXPECT_TRUE(IsEmpty(ShapeOf(geometry, std::span(&none, 1)))) << none;
  }
}

}  // namespace
}  // namespace uopd::worker
