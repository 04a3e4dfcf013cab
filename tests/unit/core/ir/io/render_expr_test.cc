// SPDX-License-Identifier: MIT
#include "core/ir/io/render_expr.h"

#include <gtest/gtest.h>

#include "core/ir/build.h"

namespace uopd::ir {
namespace {

class RenderExprTest : public ::testing::Test {
 protected:
  UOp Shape(std::initializer_list<int64_t> dims) {
    return ShapeArg(ctx, std::span<const int64_t>(dims.begin(), dims.size()));
  }
  UOpContext ctx;
  UOp r0 = Range(ctx, ctx.Idx(4), 0, AxisType::LOOP),
      r1 = Range(ctx, ctx.Idx(4), 1, AxisType::LOOP);
  UOp red = Range(ctx, ctx.Idx(4), 2, AxisType::REDUCE);
  UOp n = Variable(ctx, "n", 0, 10);
};

TEST_F(RenderExprTest, ReadsLikeC) {
  const UOp flat = Add(ctx, Mul(ctx, r0, ctx.Idx(4)), r1);
  EXPECT_EQ(RenderExpr(Alu(ctx, Op::FLOORMOD, {flat, ctx.Idx(16)})), "((r0*4)+r1)%16");
  EXPECT_EQ(RenderExpr(r0), "r0");
  EXPECT_EQ(RenderExpr(red), "R2");
  EXPECT_EQ(RenderExpr(Alu(ctx, Op::CDIV, {n, ctx.Idx(-2)})), "cdiv(n, -2)");
  EXPECT_EQ(RenderExpr(Not(ctx, Lt(ctx, n, ctx.Idx(3)))), "!(n<3)");
  EXPECT_EQ(RenderExpr(Where(ctx, Lt(ctx, n, r0), n, r0)), "(n<r0) ? n : r0");
  EXPECT_EQ(RenderExpr(Cast(ctx, Add(ctx, n, r0), Dtype::F32)), "f32(n+r0)");
  EXPECT_EQ(RenderExpr(Bitcast(ctx, ctx.Float(Dtype::F32, -0.5), Dtype::U32)), "bitcast_u32(-0.5)");
  EXPECT_EQ(RenderExpr(ctx.Int(Dtype::U64, -1)), "18446744073709551615");
  EXPECT_EQ(RenderExpr(ctx.Bool(true)), "true");
  EXPECT_EQ(RenderExpr(Alu(ctx, Op::NEG, {Add(ctx, n, r0)})), "-(n+r0)");
  EXPECT_EQ(RenderExpr(Alu(ctx, Op::MAX, {n, Add(ctx, n, r0)})), "max(n, n+r0)");
}

TEST_F(RenderExprTest, MemoryAndReductions) {
  const UOp p = Param(ctx, 1, Dtype::F32, Shape({16})),
            out = Param(ctx, 0, Dtype::F32, Shape({16}));
  const UOp load = Load(ctx, Index(ctx, p, red, Lt(ctx, red, n)));
  const UOp sum = ReduceRanges(ctx, Op::ADD, load, std::span(&red, 1));
  EXPECT_EQ(RenderExpr(Store(ctx, Index(ctx, out, r0), sum)),
            "p0[r0] = add_reduce(p1[R2 if R2<n], R2)");
}

TEST_F(RenderExprTest, SharedAndDeepGraphsStayShort) {
  UOp shared = n, deep = n;
  for (int i = 0; i < 100; ++i) shared = Add(ctx, shared, shared);
  const std::string text = RenderExpr(shared);
  EXPECT_LT(text.size(), 300u);
  EXPECT_TRUE(text.ends_with("..."));
  for (int i = 0; i < 300000; ++i) deep = Add(ctx, deep, ctx.Idx(1));
  EXPECT_LT(RenderExpr(deep).size(), 300u);
  EXPECT_GT(RenderExpr(deep, size_t{1} << 30).size(), 900000u);
}

}  // namespace
}  // namespace uopd::ir
