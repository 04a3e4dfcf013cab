// SPDX-License-Identifier: MIT
// A sum of floats has one loop in all kernels of a graph, so that its value is rounded in one way.
#include <gtest/gtest.h>

#include <functional>

#include "core/codegen/passes/sum_forms.h"
#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "tests/support/model_graphs.h"

namespace uopd {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;

// The loops over sums of floats in all kernels.
size_t SumLoops(const std::function<void(ir::UOpContext&, GraphBuilder&)>& build,
                const schedule::Options& options = {}) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  build(ctx, g);
  const auto made = schedule::MakeSchedule(ctx, g.Finish(), options);
  EXPECT_TRUE(made.ok()) << StatusText(made.status());
  size_t n = 0;
  for (size_t i = 0; made.ok() && i < made->items.size(); ++i) {
    if (made->items[i].kind != schedule::Item::kKernel) continue;
    ir::UOpContext kernel_ctx;
    const auto kernel = ir::Decode(kernel_ctx, made->items[i].graph, ir::Level::kKernel);
    EXPECT_TRUE(kernel.ok()) << StatusText(kernel.status());
    if (kernel.ok()) n += codegen::FloatSums(kernel_ctx, *kernel).size();
  }
  return n;
}

UOp Row(UOp x, ir::UOpContext& ctx, int64_t n) {
  return ir::Reshape(ctx, x, ir::ShapeArg(ctx, ir::Dims{1, n}));
}
UOp Column(UOp x, ir::UOpContext& ctx, int64_t n) {
  return ir::Reshape(ctx, x, ir::ShapeArg(ctx, ir::Dims{n, 1}));
}
UOp Equal(ir::UOpContext& ctx, UOp a, UOp b) { return ir::Alu(ctx, Op::CMPEQ, {a, b}); }

TEST(OneRounding, AllPairsOfASum) {
  for (const int64_t n : {3, 8, 100}) {
    for (const int64_t terms : {2, 8, 64}) {
      EXPECT_EQ(SumLoops([&](auto& ctx, auto& g) {
                  const UOp x = g.Sum(g.Input({n, terms}), {1});
                  g.Output(Equal(ctx, Row(x, ctx, n), Column(x, ctx, n)));
                }),
                1u)
          << n << " of " << terms;
    }
  }
}

TEST(OneRounding, ElementsBesideTheirMaximum) {
  for (const int64_t n : {4, 40}) {
    EXPECT_EQ(SumLoops([&](auto& ctx, auto& g) {
                const UOp x = g.MatMul(g.Input({3, 8}), g.Input({8, n}));
                g.Output(Equal(ctx, x, g.Max(x, {1})));
              }),
              1u);
  }
}

TEST(OneRounding, TwoKernels) {
  EXPECT_EQ(SumLoops([](auto&, auto& g) {
              const UOp x = g.Sum(g.Input({4, 3, 5}), {2});
              g.Output(g.Sum(x, {1}));
              g.Output(g.Sum(x, {0}));
            }),
            3u);
  EXPECT_EQ(SumLoops([](auto& ctx, auto& g) {
              const UOp x = g.Sum(g.Input({6, 5}), {1});
              g.Output(x);
              g.Output(Equal(ctx, Row(x, ctx, 6), Column(x, ctx, 6)));
            }),
            1u);
}

// Sums of integers, and sums that choose an element, have one value in any order: they are computed
// where they are needed.
TEST(OneRounding, ExactSumsAreFree) {
  const auto kernels = [](Dtype dtype, bool picks) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    UOp x = g.Input({4, 6}, dtype);
    if (picks) {
      const UOp shape = ir::ShapeArg(ctx, ir::Dims{4, 6});
      const UOp at = ir::Iota(ctx, Dtype::I32, shape, 1), row = ir::Iota(ctx, Dtype::I32, shape, 0);
      x = ir::Where(ctx, Equal(ctx, at, row), x, ctx.Const(dtype, 0));
    }
    x = g.Sum(x, {1});
    g.Output(Equal(ctx, Row(x, ctx, 4), Column(x, ctx, 4)));
    const auto made = schedule::MakeSchedule(ctx, g.Finish(), {});
    EXPECT_TRUE(made.ok()) << StatusText(made.status());
    return made.ok() ? made->items.size() : 0;
  };
  EXPECT_EQ(kernels(Dtype::F32, true), 1u);
  EXPECT_EQ(kernels(Dtype::I32, false), 1u);
}

}  // namespace
}  // namespace uopd
