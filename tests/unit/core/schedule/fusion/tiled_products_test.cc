// SPDX-License-Identifier: MIT
// Products of matrices on devices that run blocks: each has a kernel of its own. Against the tensor
// interpreter.
#include "core/schedule/fusion/tiled_products.h"

#include <functional>

#include "core/base/target/gpu_targets.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
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

// Kernels on a chip with matrix instructions, and whether one of them stages values.
struct Scheduled {
  size_t kernels = 0;
  bool stages = false;
};
Scheduled ScheduledOn(const BuildProducts& build, const Options& options) {
  ir::UOpContext ctx;
  GraphBuilder g(ctx);
  g.Output(build(g));
  const auto made = MakeSchedule(ctx, g.Finish(), options);
  EXPECT_TRUE(made.ok()) << StatusText(made.status());
  Scheduled out;
  for (size_t i = 0; made.ok() && i < made->items.size(); ++i) {
    ir::UOpContext kernel;
    const auto sink = ir::Decode(kernel, made->items[i].graph, ir::Level::kKernel);
    EXPECT_TRUE(sink.ok()) << StatusText(sink.status());
    ++out.kernels;
    for (UOp u : ir::Toposort(kernel, *sink)) out.stages |= u.Is(ir::Op::STAGE);
  }
  return out;
}

Options ForBlocks() {
  Options out;
  out.limits = KernelLimits::Of(*GpuTarget("sm_90"));
  return out;
}

// The scale of each channel is computed by the threads that need it, not in an array of the block.
TEST(TiledProductsTest, ScalesStandBesideTiles) {
  const auto normalised = [](GraphBuilder& g) {
    const UOp y = g.Conv2d(g.Input({64, 64, 28, 28}), g.Input({512, 64, 3, 3}), 1);
    const UOp variance = g.Input({1, 512, 1, 1});
    const UOp scale =
        ir::Alu(g.ctx(), ir::Op::RECIPROCAL, {ir::Alu(g.ctx(), ir::Op::SQRT, {variance})});
    return g.Relu(ir::Mul(g.ctx(), y, scale));
  };
  const Scheduled got = ScheduledOn(normalised, ForBlocks());
  EXPECT_EQ(got.kernels, 1U);
  EXPECT_FALSE(got.stages);
}

// Weights that are rounded, to multiply them by a matrix instruction, are rounded where a block
// copies them.
TEST(TiledProductsTest, FactorsAreRoundedByTheirTiles) {
  Options options = ForBlocks();
  options.allowed_products = {DtypeNumber::BF16};
  for (const int64_t images : {1, 64}) {
    const auto convolved = [&](GraphBuilder& g) {
      return g.Conv2d(g.Input({images, 256, 28, 28}), g.Input({128, 256, 1, 1}), 0);
    };
    const Scheduled got = ScheduledOn(convolved, options);
    EXPECT_EQ(got.kernels, 1U) << images;
    EXPECT_FALSE(got.stages) << images;
  }
}

// The mean of the pixels of a convolution reads them from memory. A product whose rows need their
// maximum first, and a sum of a product without tiles, have no kernel more.
TEST(TiledProductsTest, SumsOfResultsReadThemFromMemory) {
  const auto mean = [](GraphBuilder& g, int64_t channels) {
    const UOp x = g.Input({1, channels, 7, 7});
    return g.Mean(g.Relu(g.Conv2d(x, g.Input({channels, channels, 3, 3}), 1)), {2, 3});
  };
  const auto count = [&](const Options& options, int64_t channels) {
    return ScheduledOn([&](GraphBuilder& g) { return mean(g, channels); }, options).kernels;
  };
  EXPECT_EQ(count(ForBlocks(), 64), 2U);
  EXPECT_EQ(count({}, 64), 1U);
  EXPECT_EQ(count(ForBlocks(), 16), 1U);
  const auto run = test::RunForBlocks([&](auto&, GraphBuilder& g) { g.Output(mean(g, 36)); },
                                      tests::BlockTarget(true));
  ASSERT_TRUE(run.ok()) << StatusText(run.status());
  EXPECT_EQ(run->blocks.size(), 2U);
  EXPECT_EQ(test::Difference(*run, 1e-6), "");
}

}  // namespace
}  // namespace uopd::schedule
