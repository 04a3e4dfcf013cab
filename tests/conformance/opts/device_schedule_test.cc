// SPDX-License-Identifier: MIT
// Long reductions and running sums on a device with blocks, cut into chunks by the schedule, and
// convolutions, whose axes are merged: what the device computes, against the tensor interpreter.
//
// UOPD_FUZZ_DEVICE names the device (default CL:0).
#include <algorithm>

#include "core/ir/build.h"
#include "gtest/gtest.h"
#include "tests/support/blocks_schedule.h"
#include "tests/support/device/device_run.h"
#include "tests/support/device/named_device.h"

namespace uopd {
namespace {

using ir::Dtype;
using ir::Op;
using test::GraphBuilder;

struct CutGraph {
  const char* name;
  size_t kernels;  // at least
  double tolerance;
  std::function<void(ir::UOpContext&, GraphBuilder&)> build;
};

const CutGraph kCutGraphs[] = {
    {"sum", 2, 0, [](auto&, auto& g) { g.Output(g.Sum(g.Input({1 << 20}), {0})); }},
    {"maximum of a prime", 2, 0, [](auto&, auto& g) { g.Output(g.Max(g.Input({500009}), {0})); }},
    {"columns", 2, 0, [](auto&, auto& g) { g.Output(g.Sum(g.Input({8192, 40}), {0})); }},
    {"softmax", 5, 1e-11,
     [](auto&, auto& g) { g.Output(g.Softmax(g.Input({1, 1 << 18}, Dtype::F64))); }},
    {"product", 2, 0,
     [](auto&, auto& g) { g.Output(g.MatMul(g.Input({32, 8192}), g.Input({8192, 32}))); }},
    {"running sum", 3, 0,
     [](auto& ctx, auto& g) { g.Output(ir::Scan(ctx, Op::ADD, g.Input({1 << 18}), 0)); }},
};

TEST(DeviceScheduleTest, CutReductionsAndRunningSums) {
  const auto device = tests::OpenNamedDevice();
  if (tests::MaySkip(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  const auto run = [&](ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                       tests::Memory& memory, const std::map<std::string, int64_t>& variables) {
    return tests::RunOnDevice(**device, ctx, kernel, memory, variables);
  };
  // As for a device of a few processors, also if this one has a single one.
  Target target = (*device)->target();
  target.units = 8;
  for (const CutGraph& graph : kCutGraphs) {
    SCOPED_TRACE(graph.name);
    const auto ran = test::RunForBlocks(graph.build, target, run);
    ASSERT_TRUE(ran.ok()) << StatusText(ran.status());
    EXPECT_GE(ran->blocks.size(), graph.kernels);
    EXPECT_EQ(test::Difference(*ran, graph.tolerance), "");
  }
}

// Images of 35 pixels, one and three of them, and rows whose ends are padding.
TEST(DeviceScheduleTest, ConvolutionsOfNarrowImages) {
  int64_t merges = 0;
  const auto device = tests::OpenNamedDevice();
  if (tests::MaySkip(device.status())) GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  const auto run = [&](ir::UOpContext& ctx, const codegen::LoweredKernel& kernel,
                       tests::Memory& memory, const std::map<std::string, int64_t>& variables) {
    merges += std::ranges::count(kernel.opts, codegen::OptKind::kMerge, &codegen::Opt::kind);
    return tests::RunOnDevice(**device, ctx, kernel, memory, variables);
  };
  for (const int64_t images : {1, 3}) {
    for (const int64_t window : {1, 3}) {
      const auto build = [&](auto&, GraphBuilder& g) {
        const auto x = g.Input({images, 36, 5, 7}), w = g.Input({40, 36, window, window});
        g.Output(g.Relu(g.Conv2d(x, w, window / 2)));
      };
      const auto ran = test::RunForBlocks(build, (*device)->target(), run);
      ASSERT_TRUE(ran.ok()) << StatusText(ran.status());
      EXPECT_EQ(test::Difference(*ran), "") << images << " images, window " << window;
    }
  }
  EXPECT_GE(merges, 3);
}

}  // namespace
}  // namespace uopd
