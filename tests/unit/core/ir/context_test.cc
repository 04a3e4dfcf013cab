// SPDX-License-Identifier: MIT
#include "core/ir/context.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/print.h"
#include "core/ir/spec.h"
#include "core/ir/wire.h"

namespace uopd::ir {
namespace {

TEST(UOpContext, EqualNodesAreOne) {
  UOpContext ctx;
  const UOp a = ctx.Idx(3), b = ctx.Idx(4);
  EXPECT_EQ(Add(ctx, a, b), Add(ctx, a, b));
  EXPECT_NE(Add(ctx, a, b), Add(ctx, b, a));
  EXPECT_NE(ctx.Idx(3), ctx.Int(Dtype::I32, 3));
  EXPECT_EQ(Variable(ctx, "n", 1, 9), Variable(ctx, "n", 1, 9));
  EXPECT_NE(Variable(ctx, "n", 1, 9), Variable(ctx, "n", 1, 8));
  EXPECT_NE(Variable(ctx, "n", 1, 9), Variable(ctx, "m", 1, 9));
}

TEST(UOpContext, ConstantsAreRoundedAndZerosHaveSigns) {
  UOpContext ctx;
  EXPECT_EQ(ctx.Float(Dtype::F32, 0.1), ctx.Float(Dtype::F32, static_cast<double>(0.1f)));
  EXPECT_NE(ctx.Float(Dtype::F32, 0.0), ctx.Float(Dtype::F32, -0.0));
  EXPECT_EQ(ctx.Float(Dtype::F32, std::nan("1")), ctx.Float(Dtype::F32, -std::nan("2")));
  EXPECT_EQ(ctx.Int(Dtype::U8, 257), ctx.Int(Dtype::U8, 1));
  EXPECT_EQ(ctx.Int(Dtype::I8, 128).const_int(), -128);
}

TEST(UOpContext, OverlaySeesItsBaseAndLeavesItAlone) {
  UOpContext base;
  const UOp a = base.Idx(1), b = base.Idx(2), sum = Add(base, a, b);
  const size_t before = base.size();
  UOpContext overlay(&base);
  EXPECT_EQ(Add(overlay, a, b), sum);
  EXPECT_EQ(Variable(overlay, "n", 0, 1).id(), before);
  const UOp product = Mul(overlay, sum, b);
  EXPECT_EQ(overlay.BoundsOf(product).min, Int128{6});
  EXPECT_EQ(overlay.node(product.id()), product);
  EXPECT_EQ(base.size(), before);
}

// A chain a million deep: nothing may recurse.
TEST(UOpContext, DeepGraphs) {
  UOpContext ctx;
  constexpr int kDepth = 1'000'000;
  const UOp shape = ShapeArg(ctx, std::span<const int64_t>());
  UOp u = Param(ctx, 0, Dtype::I64, shape);
  const UOp one = ctx.Int(Dtype::I64, 1);
  for (int i = 0; i < kDepth; ++i) u = Add(ctx, u, one);
  const UOp store = Store(ctx, Param(ctx, 1, Dtype::I64, shape), u);
  const UOp sink = Sink(ctx, std::span(&store, 1));
  EXPECT_EQ(Toposort(ctx, sink).size(), kDepth + 6u);
  ASSERT_TRUE(Verify(ctx, sink, Stage::kTensor).ok());
  ctx.BoundsOf(u);
  UOpContext parsed;
  const std::string text = Print(ctx, sink);
  const auto again = Parse(parsed, text);
  ASSERT_TRUE(again.ok()) << StatusText(again.status());
  EXPECT_EQ(Print(parsed, *again), text);
  UOpContext decoded;
  const auto wire = Decode(decoded, Encode(ctx, sink), Stage::kTensor, {2'000'000, 8'000'000});
  ASSERT_TRUE(wire.ok()) << StatusText(wire.status());
  EXPECT_EQ(Encode(decoded, *wire), Encode(parsed, *again));
}

TEST(Graph, SubstituteReplacesOnce) {
  UOpContext ctx;
  const UOp x = Variable(ctx, "x", 0, 9), y = Variable(ctx, "y", 0, 9);
  Substitution swap;
  swap[x.id()] = y, swap[y.id()] = x;
  EXPECT_EQ(Substitute(ctx, Sub(ctx, x, y), swap), Sub(ctx, y, x));
  EXPECT_TRUE(Reaches(ctx, Add(ctx, x, y), x));
  EXPECT_FALSE(Reaches(ctx, Mul(ctx, x, x), y));
}

TEST(Graph, CopyToAnotherContext) {
  UOpContext ctx, other;
  other.Idx(99);
  const UOp r = Range(ctx, Variable(ctx, "n", 1, 8), 0, AxisType::REDUCE);
  absl::flat_hash_map<uint32_t, UOp> map;
  EXPECT_EQ(Print(other, CopyTo(ctx, r, other, map)), Print(ctx, r));
}

TEST(Context, FloatConstantsAreExact) {
  UOpContext ctx;
  for (Dtype d : {Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64}) {
    EXPECT_NE(ctx.Float(d, 0.0), ctx.Float(d, -0.0)) << Name(d);
    // Every NaN is one node: sign and payload are lost.
    const double nan = std::numeric_limits<double>::quiet_NaN();
    EXPECT_EQ(ctx.Float(d, nan), ctx.Float(d, -nan));
    EXPECT_EQ(ctx.Float(d, nan), ctx.Float(d, std::bit_cast<double>(0x7ff0000000000001)));
    // Rounded when made: two numbers that round alike are one node.
    if (d == Dtype::F64) continue;
    EXPECT_EQ(ctx.Float(d, 1.0), ctx.Float(d, 1.0 + 1e-9)) << Name(d);
  }
  EXPECT_EQ(ctx.Int(Dtype::U8, 300), ctx.Int(Dtype::U8, 44));
  EXPECT_EQ(ctx.Int(Dtype::I8, 200), ctx.Int(Dtype::I8, -56));
}

}  // namespace
}  // namespace uopd::ir
