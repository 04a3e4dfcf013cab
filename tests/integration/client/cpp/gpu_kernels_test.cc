// SPDX-License-Identifier: MIT
// What the code generator chooses for a GPU where a wrong choice costs a factor of ten on a chip:
// statistics of rows, products of small floats, and a step of a transformer with one row.
#include <algorithm>
#include <functional>

#include "core/base/target/gpu_targets.h"
#include "core/codegen/codegen.h"
#include "gtest/gtest.h"
#include "tests/support/chip_kernels.h"
#include "tests/support/models/models.h"
#include "uopd/executor.h"
#include "uopd/functional.h"

namespace uopd::client {
namespace {

using codegen::LoweredKernel;
using codegen::Opt;
using codegen::OptKind;

// The kernels of a graph for a chip, without their lines.
std::vector<LoweredKernel> Kernels(const char* arch, const Exported& graph) {
  std::vector<LoweredKernel> out;
  const Target target = *GpuTarget(arch);
  const auto schedule = test::ScheduleOf(graph.graph, test::ScheduleOptionsFor(target));
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (!schedule.ok()) return out;
  const auto lower = [&](ir::UOpContext& ctx, ir::UOp kernel,
                         const schedule::Item&) -> absl::Status {
    UOPD_ASSIGN(out.emplace_back(), codegen::Lower(ctx, kernel, target, {}));
    out.back().linear = ir::UOp();  // the context ends
    return absl::OkStatus();
  };
  const absl::Status lowered = test::ForEachKernel(*schedule, lower);
  EXPECT_TRUE(lowered.ok()) << lowered;
  return out;
}

std::vector<LoweredKernel> Kernels(const char* arch, const std::function<Tensor(Client&)>& build) {
  Client client(std::make_shared<OfflineExecutor>());
  const Tensor result = build(client);
  const auto graph = Export(std::span(&result, 1));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return Kernels(arch, *graph);
}

std::vector<int64_t> Amounts(const LoweredKernel& kernel, OptKind kind) {
  std::vector<int64_t> out;
  for (const Opt& o : kernel.opts) {
    if (o.kind == kind) out.push_back(o.amount);
  }
  return out;
}

// Both sums of a row have all threads of the block, and read vectors.
TEST(GpuKernelsTest, SumsOfARowHaveAllThreads) {
  for (const auto& build : std::vector<std::function<Tensor(Client&)>>{
           [](Client& c) { return c.Empty({8192, 8192}).Softmax(); },
           [](Client& c) { return fn::LayerNorm(c.Empty({8192, 8192}), {}, {}); }}) {
    const auto kernels = Kernels("sm_90", build);
    ASSERT_EQ(kernels.size(), 1u);
    const int64_t threads = kernels[0].launch.block[0].Evaluate({});
    EXPECT_GE(threads, 512);
    EXPECT_EQ(Amounts(kernels[0], OptKind::kGroup), (std::vector<int64_t>{threads, threads}));
    EXPECT_EQ(Amounts(kernels[0], OptKind::kVector), (std::vector<int64_t>{4, 4, 4}));
    EXPECT_EQ(kernels[0].launch.grid[0].Evaluate({}), 8192);
  }
}

// Products of small floats are exact in f32, so they need no permission to use matrix instructions.
TEST(GpuKernelsTest, ProductsOfSmallFloatsUseMatrixInstructions) {
  for (const char* arch : {"sm_80", "sm_90", "sm_90a", "gfx942"}) {
    for (const Dtype d : {Dtype::BF16, Dtype::F16}) {
      const auto product = Kernels(arch, [&](Client& c) {
        return c.Empty({1024, 1024}, d).MatMul(c.Empty({1024, 1024}, d));
      });
      ASSERT_EQ(product.size(), 1u);
      EXPECT_EQ(Amounts(product[0], OptKind::kTensorCore).size(), 1u) << arch;
      const auto convolution = Kernels(arch, [&](Client& c) {
        return fn::Conv(c.Empty({8, 64, 28, 28}, d), c.Empty({64, 64, 3, 3}, d), {},
                        {.padding = {1}});
      });
      ASSERT_EQ(convolution.size(), 1u);
      EXPECT_EQ(Amounts(convolution[0], OptKind::kTensorCore).size(), 1u) << arch;
      const auto attention = Kernels(arch, [&](Client& c) {
        const auto input = [&] { return c.Empty({16, 512, 64}, d); };
        return fn::Attention(input(), input(), input());
      });
      ASSERT_EQ(attention.size(), 1u);
      EXPECT_EQ(Amounts(attention[0], OptKind::kTensorCore).size(), 1u) << arch;
    }
  }
}

// A row of activations is one block's work only where there is little to do. What reads a matrix
// runs on all processors.
TEST(GpuKernelsTest, AStepForOneRowUsesAllProcessors) {
  Client client(std::make_shared<OfflineExecutor>());
  test::LlamaShape shape;
  shape.layers = 2;
  test::Llama model(client, shape);
  const auto graph = Export(test::DecodeStep(client, model, 17));
  ASSERT_TRUE(graph.ok()) << graph.status();
  int large = 0;
  for (const LoweredKernel& k : Kernels("sm_90", *graph)) {
    if (k.flops < 1e6) continue;
    ++large;
    EXPECT_LT(k.flops, 1e9) << k.name;  // nothing is computed again and again
    const std::vector<int64_t> most(k.variables.size(), 17);
    EXPECT_GE(k.launch.grid[0].Evaluate(most), 32) << k.name;
  }
  EXPECT_GE(large, 10);
}

// A launch of very many short blocks has few blocks that poll in their loops: a poll of each block
// would hold the bus for longer than the block runs.
TEST(GpuKernelsTest, LongLaunchesOfShortBlocksPollInLoops) {
  Client client(std::make_shared<OfflineExecutor>());
  const Tensor product = client.Empty({16384, 16384}).MatMul(client.Empty({16384, 16384}));
  const auto graph = Export(std::span(&product, 1));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Target target = *GpuTarget("sm_90");
  const auto schedule = test::ScheduleOf(graph->graph, test::ScheduleOptionsFor(target));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  int kernels = 0;
  const auto check = [&](ir::UOpContext& ctx, ir::UOp kernel,
                         const schedule::Item&) -> absl::Status {
    ++kernels;
    UOPD_ASSIGN(const LoweredKernel lowered, codegen::Lower(ctx, kernel, target, {.noopt = true}));
    EXPECT_TRUE(lowered.polls);
    EXPECT_EQ(lowered.launch.block[0].Evaluate({}), 256);
    EXPECT_EQ(lowered.launch.grid[0].Evaluate({}), 132 * 8);
    EXPECT_TRUE(std::ranges::any_of(lowered.linear.srcs(),
                                    [](ir::UOp u) { return u.Is(ir::Op::RANGE) && u.tag() > 0; }));
    return absl::OkStatus();
  };
  const absl::Status checked = test::ForEachKernel(*schedule, check);
  EXPECT_TRUE(checked.ok()) << checked;
  EXPECT_EQ(kernels, 1);
}

}  // namespace
}  // namespace uopd::client
