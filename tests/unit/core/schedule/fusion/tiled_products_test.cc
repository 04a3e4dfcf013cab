// SPDX-License-Identifier: MIT
// Products of matrices on devices that run blocks: each has a kernel of its own. Against the tensor interpreter.
#include "core/schedule/fusion/tiled_products.h"

#include <functional>

#include "core/base/target/gpu_targets.h"
#include "core/ir/build.h"
#include "gtest/gtest.h"
#include "tests/support/blocks_schedule.h"
#include "tests/support/lowered_run.h"

namespace uopd::schedule {
namespace {

using ir::UOp;
using test::GraphBuilder;
using BuildProducts = std::function<UOp(GraphBuilder&)>;

size_t KernelsOn(const Target& target, const BuildProducts& build) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  g.Output(build(g));
  Options options;
  options.limits = KernelLimits::Of(target);
  const auto made = MakeSchedule(ctx, g.Finish(), options);
  EXPECT_TRUE(made.ok()) << StatusText(made.status());
  return made.ok() ? made->items.size() : 0;
}

void ExpectKernels(const BuildProducts& build, size_t with_blocks, size_t without) {
  EXPECT_EQ(KernelsOn({}, build), without);
  const auto run = test::RunForBlocks([&](auto&, GraphBuilder& g) { g.Output(build(g)); },
                                      tests::BlockTarget(true));
  ASSERT_TRUE(run.ok()) << StatusText(run.status());
  EXPECT_EQ(run->blocks.size(), with_blocks);
  EXPECT_EQ(test::Difference(*run), "");
}

UOp Product(GraphBuilder& g, int64_t m = 48) {
  return g.MatMul(g.Input({m, 40}), g.Input({40, 64}));
}

TEST(TiledProductsTest, OneOfTwoProductsIsWritten) {
  ExpectKernels([](auto& g) { return ir::Add(g.ctx(), Product(g), Product(g)); }, 2, 1);
  // The gate of a transformer: both products read the same rows.
  ExpectKernels(
      [](auto& g) {
        const UOp x = g.Input({48, 40});
        const UOp gate = g.Relu(g.MatMul(x, g.Input({40, 64})));
        return ir::Mul(g.ctx(), gate, g.MatMul(x, g.Input({40, 64})));
      },
      2, 1);
  ExpectKernels(
      [](auto& g) {
        return ir::Add(g.ctx(), ir::Add(g.ctx(), Product(g), Product(g)), Product(g));
      },
      3, 1);
}

TEST(TiledProductsTest, FewRowsHaveNoTiles) {
  ExpectKernels([](auto& g) { return ir::Add(g.ctx(), Product(g, 4), Product(g, 4)); }, 1, 1);
}

// A residual connection adds what a product is computed from: its kernel has one product as it is.
TEST(TiledProductsTest, ResidualsKeepTheirKernels) {
  const auto residuals = [](GraphBuilder& g) {
    UOp x = g.Input({512, 512});
    for (int layer = 0; layer < 2; ++layer) {
      const UOp y = g.Relu(g.MatMul(x, g.Input({512, 512})));
      x = ir::Add(g.ctx(), g.MatMul(y, g.Input({512, 512})), x);
    }
    return x;
  };
  EXPECT_EQ(KernelsOn(*GpuTarget("sm_90"), residuals), 4U);
  EXPECT_EQ(KernelsOn({}, residuals), 4U);
}

// Attention is one kernel: its second product is computed from the first.
TEST(TiledProductsTest, AttentionIsOneKernel) {
  const auto attention = [](GraphBuilder& g) {
    return g.Attention(g.Input({4, 64, 64}), g.Input({4, 64, 64}), g.Input({4, 64, 64}));
  };
  EXPECT_EQ(KernelsOn(*GpuTarget("sm_90"), attention), 1U);
}

}  // namespace
}  // namespace uopd::schedule
