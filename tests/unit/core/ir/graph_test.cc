// SPDX-License-Identifier: MIT
#include "core/ir/graph.h"

#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "core/ir/tables/node_index.h"
#include "core/ir/verify/spec.h"

namespace uopd::ir {
namespace {

UOp Bind(UOpContext& ctx, UOp variable, int64_t value) {
  return ctx.Make(Op::BIND, Dtype::Index, {variable, ctx.Idx(value)});
}

TEST(Graph, UnbindSeparatesGraphAndValues) {
  UOpContext ctx;
  const UOp a = Variable(ctx, "a", 0, 9), b = Variable(ctx, "b", 0, 9),
            c = Variable(ctx, "c", 0, 9);
  const UOp bare = ctx.Make(Op::BIND, Dtype::Index, {c});
  const UOp root =
      Add(ctx, Mul(ctx, Bind(ctx, a, 3), Bind(ctx, b, 5)), Add(ctx, Bind(ctx, a, 3), bare));
  const auto out = Unbind(ctx, root);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->graph, Add(ctx, Mul(ctx, a, b), Add(ctx, a, c)));
  EXPECT_EQ(out->values, (std::vector<std::pair<UOp, int64_t>>{{a, 3}, {b, 5}}));
  EXPECT_EQ(Unbind(ctx, out->graph)->graph, out->graph);
  EXPECT_EQ(Unbind(ctx, Add(ctx, root, Bind(ctx, a, 4))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Walks nest, and what one leaves in the thread's table is absent for the next.
TEST(NodeIndex, ForgetsWhatOthersLeft) {
  UOpContext ctx;
  std::vector<UOp> nodes;
  for (int64_t i = 0; i < 100; ++i) nodes.push_back(ctx.Idx(i));
  for (uint32_t round = 0; round < 1000; ++round) {
    NodeIndex outer(ctx.size());
    for (UOp u : nodes) ASSERT_FALSE(outer.Has(u));
    for (uint32_t i = 0; i < 100; ++i) outer.Set(nodes[i], 99 - i);
    {
      NodeIndex inner(ctx.size());
      for (UOp u : nodes) ASSERT_FALSE(inner.Has(u));
      EXPECT_TRUE(inner.Insert(nodes[round % 100], 7));
      EXPECT_FALSE(inner.Insert(nodes[round % 100], 8));
      EXPECT_EQ(inner[nodes[round % 100]], 7u);
    }
    for (uint32_t i = 0; i < 100; ++i) ASSERT_EQ(outer[nodes[i]], 99 - i);
  }
}

TEST(NodeIndex, GrowsWithWhatIsInIt) {
  UOpContext ctx;
  for (uint32_t round = 0; round < 3; ++round) {
    NodeIndex index(ctx.size());
    for (uint32_t i = 0; i < 500; ++i) {
      const UOp u = ctx.Idx(1000 * round + i);
      if (u.id() >= index.ids()) index.Grow(ctx.size());
      ASSERT_EQ(index.Get(u), NodeIndex::kNone);
      index.Set(u, i);
    }
    for (uint32_t i = 0; i < 500; ++i) ASSERT_EQ(index.Get(ctx.Idx(1000 * round + i)), i);
  }
}

// Few ranges have bits of their own, many share them; an overlay goes on counting.
TEST(Graph, ReachesKnowsRangesApart) {
  UOpContext base;
  std::vector<UOp> ranges;
  auto grow = [&](UOpContext& ctx, int64_t n) {
    while (static_cast<int64_t>(ranges.size()) < n)
      ranges.push_back(Range(ctx, ctx.Idx(4), static_cast<int64_t>(ranges.size()), AxisType::LOOP));
    for (size_t i = 0; i < ranges.size(); ++i) {
      const UOp other = ranges[(i + 7) % ranges.size()];
      const UOp u = Add(ctx, Mul(ctx, ranges[i], ctx.Idx(3)), Alu(ctx, Op::NEG, {other}));
      for (UOp r : ranges) ASSERT_EQ(Reaches(ctx, u, r), r == ranges[i] || r == other);
      EXPECT_FALSE(Reaches(ctx, ranges[i], u));
    }
  };
  grow(base, 20);
  EXPECT_TRUE(base.ranges_have_bits());
  UOpContext overlay(&base);
  grow(overlay, 32);
  EXPECT_TRUE(overlay.ranges_have_bits());
  grow(overlay, 80);
  EXPECT_FALSE(overlay.ranges_have_bits());
  // A range of a size that varies with another one.
  const UOp inner = Range(overlay, Add(overlay, ranges[3], overlay.Idx(1)), 99, AxisType::LOOP);
  EXPECT_TRUE(Reaches(overlay, Mul(overlay, inner, overlay.Idx(2)), ranges[3]));
  EXPECT_FALSE(Reaches(overlay, Mul(overlay, inner, overlay.Idx(2)), ranges[4]));
}

TEST(Graph, ReplaceChangesWhatIsNamed) {
  UOpContext ctx;
  const UOp a = Variable(ctx, "a", 0, 9), b = Variable(ctx, "b", 0, 9), sum = Add(ctx, a, b);
  EXPECT_EQ(Replace(ctx, sum, {}), sum);
  const UOp other[] = {b, a};
  EXPECT_EQ(Replace(ctx, sum, {.src = other}), Add(ctx, b, a));
  const UOp tagged = Replace(ctx, sum, {.tag = 7});
  EXPECT_EQ(tagged.tag(), 7);
  EXPECT_NE(tagged, sum);
  EXPECT_EQ(Replace(ctx, tagged, {.tag = 0}), sum);
  EXPECT_EQ(Replace(ctx, ctx.Idx(3), {.dtype = Dtype::I32}), ctx.Int(Dtype::I32, 3));
  EXPECT_EQ(Replace(ctx, ctx.Idx(3), {.arg = Arg::Int(4)}), ctx.Idx(4));
}

TEST(Graph, TheDeviceIsThatOfTheFirstSourceThatHasOne) {
  UOpContext ctx;
  const UOp shape = ShapeArg(ctx, std::span<const int64_t>());
  const UOp none = Param(ctx, 0, Dtype::F32, shape), cpu = Param(ctx, 1, Dtype::F32, shape, "CPU"),
            gpu = Param(ctx, 2, Dtype::F32, shape, "CUDA:1");
  EXPECT_EQ(DeviceOf(ctx.Idx(1)), "");
  EXPECT_EQ(DeviceOf(none), "");
  EXPECT_EQ(DeviceOf(Add(ctx, none, Add(ctx, gpu, cpu))), "CUDA:1");
  EXPECT_EQ(DeviceOf(Add(ctx, cpu, gpu)), "CPU");
  const UOp copy = ctx.Make(Op::COPY, Dtype::F32, {cpu}, ctx.Data({}, "CL"));
  EXPECT_EQ(DeviceOf(Add(ctx, copy, cpu)), "CL");
}

// A chain of half a million nodes through everything that walks graphs.
TEST(Graph, DepthIsNoLimit) {
  UOpContext ctx;
  const UOp shape = ShapeArg(ctx, std::span<const int64_t>());
  const UOp x = Param(ctx, 0, Dtype::F32, shape), y = Param(ctx, 1, Dtype::F32, shape);
  const UOp bound = Cast(ctx, Bind(ctx, Variable(ctx, "n", 0, 9), 2), Dtype::F32);
  UOp u = Add(ctx, x, bound);
  for (int i = 0; i < 500'000; ++i) u = Alu(ctx, Op::NEG, {u});
  const UOp store = Store(ctx, Param(ctx, 2, Dtype::F32, shape), u);
  const UOp sink = Sink(ctx, std::span(&store, 1));
  EXPECT_TRUE(Verify(ctx, sink, Level::kTensor).ok());
  const UOp other = Substitute(ctx, sink, {{x.id(), y}});
  EXPECT_TRUE(Reaches(ctx, other, y));
  EXPECT_FALSE(Reaches(ctx, other, x));
  EXPECT_EQ(Unbind(ctx, sink)->values.size(), 1u);
  EXPECT_EQ(DeviceOf(sink), "");
  UOpContext copy;
  const auto parsed = Parse(copy, Print(ctx, sink));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(Print(copy, *parsed), Print(ctx, sink));
  absl::flat_hash_map<uint32_t, UOp> map;
  EXPECT_EQ(CopyTo(ctx, sink, copy, map), *parsed);
  UOp i = Variable(ctx, "i", 0, 1);
  for (int k = 0; k < 500'000; ++k) i = Add(ctx, i, ctx.Idx(1));
  EXPECT_TRUE(ctx.BoundsOf(i).max == 500'001);
}

}  // namespace
}  // namespace uopd::ir
