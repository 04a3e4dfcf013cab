// SPDX-License-Identifier: MIT
// The random key of hash tables (core/base/table_key.h) changes no output: graphs, digests, texts,
// schedules, kernels and their names are the same under a hundred keys.
#include "core/base/table_key.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <functional>

#include "core/base/text.h"
#include "core/codegen/codegen.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/render/formats.h"
#include "core/schedule/schedule.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"
#include "tests/support/models/models.h"
#include "uopd/executor.h"
#include "uopd/functional.h"

namespace uopd {
namespace {

// Everything that the daemon would keep of a graph.
std::string OutputsOf(const std::string& graph, size_t most_kernels) {
  ir::UOpContext ctx;
  const auto sink = ir::Decode(ctx, graph, ir::Level::kTensor);
  EXPECT_TRUE(sink.ok()) << StatusText(sink.status());
  if (!sink.ok()) return "";
  std::string out = ir::Print(ctx, *sink) + ir::Encode(ctx, *sink);
  const auto schedule = schedule::MakeSchedule(ctx, *sink, {});
  EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
  if (!schedule.ok()) return "";
  out += schedule->Encode();
  for (const schedule::Item& item : schedule->items) {
    if (item.kind != schedule::Item::kKernel || most_kernels == 0) continue;
    --most_kernels;
    ir::UOpContext kernel;
    const auto root = ir::Decode(kernel, item.graph, ir::Level::kKernel);
    const auto lowered = codegen::Lower(kernel, *root, Target(), {});
    EXPECT_TRUE(lowered.ok()) << StatusText(lowered.status());
    if (!lowered.ok()) return "";
    out += lowered->name + ir::Print(kernel, lowered->linear);
    for (const codegen::Opt& opt : lowered->opts) out += codegen::Text(opt);
    const auto c = render::RenderC(kernel, lowered->linear, lowered->name, lowered->variables);
    const auto llvm =
        render::RenderLlvmIr(kernel, lowered->linear, lowered->name, lowered->variables);
    EXPECT_TRUE(c.ok() && llvm.ok());
    if (c.ok() && llvm.ok()) out += *c + *llvm;
  }
  return out;
}

struct Case {
  const char* name;
  size_t kernels;  // how many of them are compiled
  std::function<std::string()> graph;
};

std::string Exported(const std::function<std::vector<client::Tensor>(client::Client&)>& build) {
  client::Client c(std::make_shared<client::OfflineExecutor>());
  const auto graph = client::Export(build(c));
  EXPECT_TRUE(graph.ok()) << StatusText(graph.status());
  return graph.ok() ? graph->graph : "";
}

template <class F>
std::string Made(F make) {
  ir::UOpContext ctx;
  return ir::Encode(ctx, make(ctx));
}

const Case kCases[] = {
    {"transformer", 6,
     [] { return Made([](auto& c) { return test::TransformerGraph(c, 1, 16, 32, 2); }); }},
    {"resnet", 6, [] { return Made([](auto& c) { return test::ResNetGraph(c, 1, 2, 4, 8); }); }},
    {"adam", 4, [] { return Made([](auto& c) { return test::AdamGraph(c, 3, 8, 8); }); }},
    {"random", 8,
     [] {
       test::GeneratorOptions options{.ops = 60};
       return Made([&](auto& c) { return test::GenerateGraph(c, 7, options).sink; });
     }},
    {"symbolic", 8,
     [] {
       test::GeneratorOptions options{.ops = 40, .symbolic = true};
       return Made([&](auto& c) { return test::GenerateGraph(c, 9, options).sink; });
     }},
    {"devices", 8,
     [] {
       test::GeneratorOptions options{.ops = 40, .devices = true};
       return Made([&](auto& c) { return test::GenerateGraph(c, 12, options).sink; });
     }},
    {"perceptron with Adam", 4,
     [] {
       std::unique_ptr<client::Optimizer> optimizer;
       return Exported([&](client::Client& c) { return test::MlpStep(c, true, optimizer); });
     }},
    {"GPT-2 layer", 4,
     [] { return Exported([](client::Client& c) { return test::Gpt2Forward(c, 1, 8, 1); }); }},
};

TEST(TableKey, ChangesNoOutput) {
  constexpr uint64_t kKeys = 100;
  for (const Case& c : kCases) {
    std::string graph, want;
    for (uint64_t i = 0; i < kKeys; ++i) {
      // 0 and all ones first.
      const ScopedTableKey key(i < 2 ? 0 - i : i * 0x9E3779B97F4A7C15ull);
      const std::string made = c.graph();
      ASSERT_FALSE(made.empty()) << c.name;
      if (i == 0) graph = made;
      ASSERT_EQ(made, graph) << c.name << " under key " << i;
      // Kernels take the time: a few of them under every tenth key, one under the others.
      const bool all = i % 10 == 0;
      const std::string got = OutputsOf(made, all ? c.kernels : 1);
      if (i == 0) want = got;
      ASSERT_FALSE(got.empty());
      ASSERT_TRUE(all ? got == want : want.starts_with(got)) << c.name << " under key " << i;
    }
  }
}

// Constants that meet in one place of a table under another hash: the interning of a million of
// them would be quadratic.
TEST(TableKey, ChosenConstantsDoNotMeet) {
  auto seconds = [](uint64_t step, uint64_t n) {
    ir::UOpContext ctx;
    timespec begin, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (uint64_t i = 0; i < n; ++i) ctx.Int(ir::Dtype::I64, static_cast<int64_t>(i * step));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return static_cast<double>(end.tv_sec - begin.tv_sec) +
           1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
  };
  constexpr uint64_t kNodes = 1 << 15;
  const double usual = std::max(seconds(1, kNodes), seconds(1, kNodes));
  for (int shift : {16, 32, 44, 48}) {
    const double chosen = seconds(uint64_t{1} << shift, kNodes);
    EXPECT_LT(chosen, 20 * usual + 0.01) << shift;
  }
  // What Mix sends to one place: x such that (a ^ (x + c)) * odd has the same low half.
  uint64_t inverse = 1;
  constexpr uint64_t kOdd = 0xff51afd7ed558ccdull;
  for (int i = 0; i < 6; ++i) inverse *= 2 - kOdd * inverse;
  const uint64_t a =
      uint64_t{static_cast<uint8_t>(ir::Op::CONST)} << 8 | static_cast<uint64_t>(ir::Dtype::I64);
  const uint64_t c = 0x9E3779B97F4A7C15ull + (a << 6) + (a >> 2);
  ir::UOpContext ctx;
  timespec begin, end;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  for (uint64_t i = 0; i < kNodes; ++i) {
    const uint64_t product = i << 32 | i;  // the halves cancel in what Mix leaves
    ctx.Int(ir::Dtype::I64, static_cast<int64_t>((a ^ (product * inverse)) - c));
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  const double mixed = static_cast<double>(end.tv_sec - begin.tv_sec) +
                       1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
  EXPECT_LT(mixed, 20 * usual + 0.01);
}

}  // namespace
}  // namespace uopd
