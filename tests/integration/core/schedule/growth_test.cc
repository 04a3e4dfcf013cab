// SPDX-License-Identifier: MIT
// Scheduling costs in proportion to its graph, whatever repeats in it: nodes made and memory. CPU
// time is that of a noisy machine, so here it only must not be that of a square; `uopd-perf growth`
// measures it, up to 10^5 nodes.
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>

#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/repeated_graphs.h"

namespace uopd {
namespace {

constexpr double kMost = 2.3;      // for twice the graph
constexpr double kMostTime = 3.2;  // the same; 4 is a square
constexpr double kNodes = 800;
constexpr int kDoublings = 2;
constexpr int kTries = 100;  // a machine may be slow for some tenths of a second

double CpuSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct GrowthCost {
  double graph = 0, nodes = 0, bytes = 0, seconds = 0;
};

GrowthCost CostOf(const test::Repeated& structure, int n) {
  ir::UOpContext ctx;
  const ir::UOp sink = structure.build(ctx, n);
  EXPECT_TRUE(ir::Verify(ctx, sink, ir::Level::kTensor).ok());
  GrowthCost cost;
  cost.graph = static_cast<double>(ir::Toposort(ctx, sink).size());
  const auto nodes = static_cast<double>(ctx.size()),
             bytes = static_cast<double>(ctx.bytes_reserved());
  const double start = CpuSeconds();
  const auto schedule = schedule::MakeSchedule(ctx, sink, {});
  cost.seconds = CpuSeconds() - start;
  EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
  cost.nodes = static_cast<double>(ctx.size()) - nodes;
  cost.bytes = static_cast<double>(ctx.bytes_reserved()) - bytes;
  return cost;
}

class Growth : public ::testing::TestWithParam<test::Repeated> {};

TEST_P(Growth, IsLinear) {
  int n = 8;
  while (CostOf(GetParam(), n).graph < kNodes) n *= 2;
  GrowthCost small = CostOf(GetParam(), n), large = CostOf(GetParam(), n << kDoublings);
  const double grown = large.graph / small.graph;
  const double most = grown * std::pow(kMost / 2, kDoublings),
               most_time = grown * std::pow(kMostTime / 2, kDoublings);
  EXPECT_LE(large.nodes, most * (small.nodes + 200));
  EXPECT_LE(large.bytes, most * (small.bytes + (1 << 20)));
  // Other work on the machine only ever adds.
  for (int i = 0; i < kTries && large.seconds > most_time * small.seconds; ++i) {
    small.seconds = std::min(small.seconds, CostOf(GetParam(), n).seconds);
    large.seconds = std::min(large.seconds, CostOf(GetParam(), n << kDoublings).seconds);
  }
  EXPECT_LE(large.seconds, most_time * small.seconds + 1e-3);
}

INSTANTIATE_TEST_SUITE_P(, Growth, ::testing::ValuesIn(test::RepeatedGraphs()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace uopd
