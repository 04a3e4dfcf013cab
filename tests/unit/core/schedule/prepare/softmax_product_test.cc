// SPDX-License-Identifier: MIT
// Attention over many keys is one kernel where matrix instructions of warps compute both products.
#include "core/schedule/prepare/softmax_product.h"

#include <algorithm>
#include <limits>

#include "core/base/target/gpu_targets.h"
#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "gtest/gtest.h"
#include "tests/support/blocks_schedule.h"
#include "tests/support/model_graphs.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::UOp;

struct LongAttention {
  ir::Dims heads;  // of the queries; the last one of several shares keys and values
  int64_t queries, keys, depth;
  Dtype dtype = Dtype::F16;
  bool causal = false;
};

void BuildLongAttention(ir::UOpContext& ctx, test::GraphBuilder& g, const LongAttention& n) {
  ir::Dims q = n.heads, k = n.heads;
  q.insert(q.end(), {n.queries, n.depth});
  if (k.size() > 1) k.back() = 1;
  k.insert(k.end(), {n.keys, n.depth});
  const auto input = [&](const ir::Dims& d) {
    return ir::Cast(ctx, g.Input(d, n.dtype), Dtype::F32);
  };
  const UOp queries = input(q), keys = input(k), values = input(k);
  UOp scores = g.MatMul(queries, g.Transpose(keys));
  if (n.causal) {
    const UOp shape = ir::ShapeArg(ctx, ir::Dims{n.queries, n.keys});
    const UOp last =
        ir::Add(ctx, ir::Iota(ctx, Dtype::I64, shape, 0), ctx.Int(Dtype::I64, n.keys - n.queries));
    ir::Dims all(n.heads.size(), 1);
    all.insert(all.end(), {n.queries, n.keys});
    const UOp hidden = g.Reshape(ir::Lt(ctx, last, ir::Iota(ctx, Dtype::I64, shape, 1)), all);
    scores = ir::Where(ctx, hidden, ctx.Const(Dtype::F32, -std::numeric_limits<double>::infinity()),
                       scores);
  }
  const UOp p = ir::Cast(ctx, ir::Cast(ctx, g.Softmax(scores), n.dtype), Dtype::F32);
  g.Output(ir::Cast(ctx, g.MatMul(p, values), n.dtype));
}

// The kernels of the graph for the chip; those that multiply both products by warps in `online`.
size_t KernelsFor(const LongAttention& n, std::string_view arch, size_t& online) {
  ir::UOpContext ctx;
  const Target target = *GpuTarget(arch);
  Options options;
  options.limits = KernelLimits::Of(target);
  test::GraphBuilder g(ctx);
  BuildLongAttention(ctx, g, n);
  const auto schedule = MakeSchedule(ctx, g.Finish(), options);
  EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
  if (!schedule.ok()) return 0;
  online = 0;
  for (const Item& item : schedule->items) {
    ir::UOpContext kernel;
    const auto root = ir::Decode(kernel, item.graph, ir::Level::kKernel);
    const auto lowered = codegen::Lower(kernel, *root, target, {});
    EXPECT_TRUE(lowered.ok()) << StatusText(lowered.status());
    if (!lowered.ok()) continue;
    const auto has = [&](codegen::OptKind kind) {
      return std::ranges::any_of(lowered->opts,
                                 [&](const codegen::Opt& o) { return o.kind == kind; });
    };
    online += has(codegen::OptKind::kOnline) && has(codegen::OptKind::kTensorCore) ? 1 : 0;
  }
  return schedule->items.size();
}

TEST(SoftmaxProducts, LongAttentionIsOneKernel) {
  const LongAttention cases[] = {{{8}, 4096, 4096, 128, Dtype::F16, true},
                                 {{8}, 4096, 4096, 64, Dtype::BF16},
                                 {{2}, 16384, 16384, 128, Dtype::BF16, true},
                                 {{2, 4}, 4096, 4096, 64, Dtype::F16, true}};
  for (const char* arch : {"sm_90", "gfx942"}) {
    for (const LongAttention& n : cases) {
      size_t online = 0;
      EXPECT_EQ(KernelsFor(n, arch, online), 1u)
          << arch << " " << n.heads.size() << " " << n.keys << " " << n.depth;
      EXPECT_EQ(online, 1u) << arch << " " << n.heads.size() << " " << n.keys << " " << n.depth;
    }
  }
}

// One processor, so that small attention has work for it. Heads that share keys and values do so in
// the kernel, too.
TEST(SoftmaxProducts, TheOneKernelComputesTheSame) {
  for (const char* arch : {"sm_90", "gfx942"}) {
    Target target = *GpuTarget(arch);
    target.units = 1;
    for (const LongAttention& n : {LongAttention{{2, 2}, 40, 100, 32, Dtype::F16, true},
                                   {{3}, 33, 70, 16, Dtype::BF16},
                                   {{1}, 64, 200, 64, Dtype::F16}}) {
      const auto run = test::RunForBlocks(
          [&](ir::UOpContext& ctx, test::GraphBuilder& g) { BuildLongAttention(ctx, g, n); },
          target);
      ASSERT_TRUE(run.ok()) << StatusText(run.status());
      EXPECT_EQ(run->blocks.size(), 1u) << arch << " " << n.keys;
      const std::vector<double> got = run->got[3].ToDoubles(), want = run->want[3].ToDoubles();
      const double tolerance = n.dtype == Dtype::BF16 ? 2e-2 : 4e-3;  // values are up to 2
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(got[i], want[i], tolerance) << arch << " " << n.keys << " at " << i;
    }
  }
}

// Few queries leave processors without work; f32 has no instruction; the depth has no whole tiles.
TEST(SoftmaxProducts, OthersAreDividedOrStored) {
  for (const LongAttention& n : {LongAttention{{8}, 1, 16384, 128},
                                 {{1}, 64, 16384, 128},
                                 {{8}, 4096, 16384, 128, Dtype::F32},
                                 {{8}, 4096, 16384, 72}}) {
    size_t online = 0;
    EXPECT_GT(KernelsFor(n, "sm_90", online), 1u) << n.queries << " " << n.depth;
    EXPECT_EQ(online, 0u) << n.queries << " " << n.depth;
  }
}

}  // namespace
}  // namespace uopd::schedule
