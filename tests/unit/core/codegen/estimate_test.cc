// SPDX-License-Identifier: MIT
#include "core/codegen/estimate.h"

#include "core/ir/build.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "gtest/gtest.h"
#include "tests/support/model_graphs.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::UOp;

// The estimate of the only kernel of a graph.
Estimate Of(UOp (*build)(test::GraphBuilder&), const schedule::Options& options = {}) {
  ir::UOpContext ctx, kernel;
  test::GraphBuilder g(ctx);
  g.Output(build(g));
  const auto schedule = schedule::MakeSchedule(ctx, g.Finish(), options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->items.size(), 1u);
  const auto sink = ir::Decode(kernel, schedule->items[0].graph, ir::Level::kKernel);
  EXPECT_TRUE(sink.ok()) << sink.status();
  return EstimateKernel(kernel, *sink);
}

template <Dtype dtype>
UOp Product(test::GraphBuilder& g) {
  return g.MatMul(g.Input({8, 16}, dtype), g.Input({16, 4}, dtype));
}

TEST(EstimateTest, CountsMultipliesAndAdds) {
  const Estimate got = Of(Product<Dtype::F32>);
  EXPECT_EQ(got.flops, 2 * 8 * 16 * 4);
  EXPECT_EQ(got.bytes, 4 * (8 * 16 + 16 * 4 + 8 * 4));
  EXPECT_EQ(got.dtype, DtypeNumber::F32);
}

TEST(EstimateTest, MostOperationsDecideTheDtype) {
  EXPECT_EQ(Of(Product<Dtype::F64>).dtype, DtypeNumber::F64);
  EXPECT_EQ(Of(Product<Dtype::I32>).dtype, DtypeNumber::I32);
  const Estimate copy = Of([](test::GraphBuilder& g) { return g.Transpose(g.Input({8, 4})); });
  EXPECT_EQ(copy.dtype, DtypeNumber::Void);
  EXPECT_EQ(copy.flops, 0);
}

TEST(EstimateTest, ProductsOfSmallFloatsWithSumsInF32HaveTheirDtype) {
  schedule::Options rounds;
  rounds.allowed_products = {DtypeNumber::BF16};
  rounds.limits.product_dtypes = {DtypeNumber::BF16};
  const auto large = [](test::GraphBuilder& g) {
    const UOp a = ir::Cast(g.ctx(), g.Input({8, 16}, Dtype::BF16), Dtype::F32);
    const UOp b = ir::Cast(g.ctx(), g.Input({16, 4}, Dtype::BF16), Dtype::F32);
    return g.MatMul(a, b);
  };
  EXPECT_EQ(Of(large).dtype, DtypeNumber::BF16);
  EXPECT_EQ(Of(Product<Dtype::F32>).dtype, DtypeNumber::F32);
  // Here each operation of the product is beside one that rounds an operand.
  EXPECT_EQ(Of(Product<Dtype::F32>, rounds).dtype, DtypeNumber::BF16);
}

}  // namespace
}  // namespace uopd::codegen
