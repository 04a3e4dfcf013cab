// SPDX-License-Identifier: MIT
#include "core/ir/context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <vector>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"

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

TEST(UOpContext, ArgsAndTagsArePartOfANode) {
  UOpContext ctx;
  const UOp a = Variable(ctx, "a", 0, 9), b = Variable(ctx, "b", 0, 9);
  const UOp srcs[] = {a, b};
  // With neither, with one, with the other, with both; an ADD takes no arg, but a wrong one stays.
  std::vector<UOp> made;
  for (const auto& [op, arg, tag] :
       {std::tuple(Op::ADD, 0, 0), std::tuple(Op::ADD, 0, 7), std::tuple(Op::ADD, 5, 0),
        std::tuple(Op::ADD, 5, 7), std::tuple(Op::INDEX, 0, 0), std::tuple(Op::INDEX, 5, -7)}) {
    const UOp u = ctx.Make(op, Dtype::Index, srcs, Arg::Int(arg), tag);
    EXPECT_EQ(u.arg(), Arg::Int(arg));
    EXPECT_EQ(u.tag(), tag);
    EXPECT_EQ(u.src(0), a);
    EXPECT_EQ(u.src(1), b);
    EXPECT_EQ(std::count(made.begin(), made.end(), u), 0);
    EXPECT_EQ(ctx.Make(op, Dtype::Index, srcs, Arg::Int(arg), tag), u);
    made.push_back(u);
  }
}

TEST(UOpContext, EqualShapesAreOne) {
  UOpContext ctx;
  const auto shaped = [&](std::initializer_list<int64_t> dims, int64_t slot) {
    return Param(ctx, slot, Dtype::F32, ShapeArg(ctx, std::vector<int64_t>(dims)));
  };
  const UOp a = shaped({3, 4}, 0), b = shaped({3, 4}, 1), row = shaped({4}, 2);
  EXPECT_EQ(ctx.ShapeOf(a), ctx.ShapeOf(b));
  EXPECT_EQ(ctx.ShapeOf(Add(ctx, a, row)), ctx.ShapeOf(a));
  EXPECT_EQ(ctx.ShapeOf(Add(ctx, row, a)), ctx.ShapeOf(a));
  EXPECT_NE(ctx.ShapeOf(row), ctx.ShapeOf(a));
  // More than the table holds at first: each stays the one it was.
  std::vector<const Shape*> shapes;
  for (int64_t n = 1; n <= 1000; ++n) shapes.push_back(ctx.ShapeOf(shaped({n, 2}, 3)));
  for (int64_t n = 1; n <= 1000; ++n) {
    const Shape* again = ctx.ShapeOf(shaped({n, 2}, 4));
    EXPECT_EQ(again, shapes[static_cast<size_t>(n - 1)]);
    EXPECT_EQ((*again)[0], ctx.Idx(n));
  }
}

TEST(UOpContext, BoundsBeyond64Bits) {
  UOpContext ctx;
  const int64_t most = std::numeric_limits<int64_t>::max();
  const UOp huge = ctx.Idx(most), n = Variable(ctx, "n", -3, 5);
  const UOp product = Mul(ctx, n, huge), square = Mul(ctx, huge, huge);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(ctx.BoundsOf(product).min, Int128{-3} * most);
    EXPECT_EQ(ctx.BoundsOf(product).max, Int128{5} * most);
    EXPECT_EQ(ctx.BoundsOf(n).min, Int128{-3});
    EXPECT_TRUE(ctx.BoundsOf(square).IsPoint());
    EXPECT_EQ(ctx.BoundsOf(ctx.Int(Dtype::U64, Int128{~uint64_t{0}})).min, Int128{~uint64_t{0}});
    EXPECT_EQ(ctx.BoundsOf(Range(ctx, huge, 0, AxisType::LOOP)).max, Int128{most} - 1);
    EXPECT_EQ(ctx.BoundsOf(Range(ctx, ctx.Idx(0), 0, AxisType::LOOP)).max, Int128{0});
  }
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
  ASSERT_TRUE(Verify(ctx, sink, Level::kTensor).ok());
  ctx.BoundsOf(u);
  UOpContext parsed;
  const std::string text = Print(ctx, sink);
  const auto again = Parse(parsed, text);
  ASSERT_TRUE(again.ok()) << StatusText(again.status());
  EXPECT_EQ(Print(parsed, *again), text);
  UOpContext decoded;
  const auto wire = Decode(decoded, Encode(ctx, sink), Level::kTensor, {2'000'000, 8'000'000});
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
  for (Dtype d : {Dtype::F8E4M3, Dtype::F8E5M2, Dtype::F16, Dtype::BF16, Dtype::TF32, Dtype::F32,
                  Dtype::F64}) {
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
