// SPDX-License-Identifier: MIT
// Rules against what people write: for each of them a graph made with Tensor in whose scheduling
// and lowering it applies.
#include "core/rules/rules.h"

#include <functional>
#include <memory>

#include "core/codegen/codegen.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "gtest/gtest.h"
#include "uopd/client.h"
#include "uopd/executor.h"

namespace uopd::client {
namespace {

using ir::Dtype;

struct RuleRow {
  std::string_view rule;  // set.rule
  bool fast_math;
  std::function<Tensor(Client&)> build;
};

const rewrite::Rule* Find(std::string_view name) {
  for (const rewrite::RuleSet* set : rules::AllRuleSets()) {
    for (const auto& rule : set->rules()) {
      if (rule->FullName() == name) return rule.get();
    }
  }
  return nullptr;
}

// The kernels of the graph, scheduled and lowered: as text.
std::string Compile(const Tensor& tensor, bool fast_math) {
  const auto graph = Export(std::span(&tensor, 1));
  EXPECT_TRUE(graph.ok()) << StatusText(graph.status());
  if (!graph.ok()) return {};
  ir::UOpContext ctx;
  const auto sink = ir::Decode(ctx, graph->graph, ir::Level::kTensor);
  EXPECT_TRUE(sink.ok()) << StatusText(sink.status());
  if (!sink.ok()) return {};
  const auto schedule = schedule::MakeSchedule(ctx, *sink, {});
  EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
  if (!schedule.ok()) return {};
  codegen::Options options;
  options.fast_math = fast_math;
  std::string text;
  for (const schedule::Item& item : schedule->items) {
    if (item.kind != schedule::Item::kKernel) continue;
    ir::UOpContext local;
    const auto kernel = ir::Decode(local, item.graph, ir::Level::kKernel);
    EXPECT_TRUE(kernel.ok()) << StatusText(kernel.status());
    if (!kernel.ok()) continue;
    text += ir::Print(local, *kernel);
    const auto lowered = codegen::Lower(local, *kernel, Target(), options);
    EXPECT_TRUE(lowered.ok()) << StatusText(lowered.status());
  }
  return text;
}

Tensor Rows(Client& c) { return c.Arange(0, 8).Unsqueeze(1); }
Tensor Columns(Client& c) { return c.Arange(0, 8); }
Tensor Ints(Client& c) { return c.Empty({64}, Dtype::I32); }

const RuleRow kRuleRows[] = {
    {"algebra.common_factor", false,
     [](Client& c) {
       const Tensor a = Ints(c);
       return a * Ints(c) + a * Ints(c);
     }},
    {"algebra.div_div", false, [](Client& c) { return Ints(c).FloorDiv(3).FloorDiv(5); }},
    {"algebra.max_again", false,
     [](Client& c) {
       const Tensor least = Ints(c);
       return Ints(c).Maximum(least).Maximum(least);
     }},
    {"algebra.neg_of_product", false, [](Client& c) { return -(c.Empty({64}) * 0.5); }},
    {"algebra.product_of_neg", false, [](Client& c) { return (-c.Empty({64}) * 0.5).Exp2(); }},
    {"algebra.trunc_of_integer", false, [](Client& c) { return Ints(c).Cast(Dtype::F32).Floor(); }},
    {"boolean.add_of_where", false,
     [](Client& c) {
       const Tensor first = Ints(c) < 3;
       return Where(first, Ints(c), 0) + Where(first, 0, Ints(c));
     }},
    {"boolean.and_equal", false,
     [](Client& c) {
       const Tensor x = Ints(c);
       return (x == 3) & (x < 5);
     }},
    {"boolean.less_or_equal", false, [](Client& c) { return Ints(c) <= Ints(c); }},
    {"boolean.op_of_where", false,
     [](Client& c) {
       const Tensor some = Ints(c) < 3;
       return Where(some, c.Empty({64}), 0.0) * Where(some, c.Empty({64}), 1.0);
     }},
    {"boolean.where_equal", false,
     [](Client& c) {
       const Tensor x = c.Empty({64});
       return Where(x == 2.0, x * 3.0 + 1.0, c.Empty({64}));
     }},
    {"boolean.where_unequal", false,
     [](Client& c) {
       const Tensor x = Ints(c), y = Ints(c);
       return Where(x != y, Ints(c), x - y);
     }},
    {"casts.cast_where", false,
     [](Client& c) { return Where(Ints(c) < 3, c.Empty({64}, Dtype::F16), 0.0).Cast(Dtype::F32); }},
    {"casts.compare_of_bool", false,
     [](Client& c) { return (Ints(c) < 3).Cast(Dtype::F32) < 0.5; }},
    {"casts.compare_with_bool", false,
     [](Client& c) { return (Ints(c) < 3).Cast(Dtype::F32) > 0.5; }},
    {"casts.to_bool", false, [](Client& c) { return Where(c.Empty({64}), c.Empty({64}), 1.0); }},
    {"fast_math.exp", true, [](Client& c) { return c.Empty({64}).Exp(); }},
    {"fast_math.common_factor_one", true,
     [](Client& c) {
       const Tensor x = c.Empty({64});
       return x + x * 0.5;
     }},
    {"fast_math.max_factor", true, [](Client& c) { return (c.Empty({64}) * 0.125).Max(); }},
    {"fast_math.pow_constant", true, [](Client& c) { return c.Empty({64}).Pow(-1.5); }},
    {"fast_math.sigmoid", true,
     [](Client& c) {
       const Tensor e = c.Empty({64}).Exp2();
       return e / (1.0 + e);
     }},
    {"fast_math.sigmoid_factor", true,
     [](Client& c) {
       const Tensor e = c.Empty({64}).Exp2();
       return e * (1.0 + e).Reciprocal();
     }},
    // What a sum says of each of its terms.
    {"given.and", false,
     [](Client& c) {
       return (Operand(0) < Rows(c) + Columns(c)) & (Operand(0) < Rows(c).Maximum(Columns(c)));
     }},
    // What an equality says.
    {"given.where", false,
     [](Client& c) { return Where(Rows(c) == Columns(c), Rows(c) * 8 + Columns(c) % 5, 0); }},
    {"index.interval_end", false, [](Client& c) { return Rows(c) <= Columns(c); }},
    {"index.max", false, [](Client& c) { return (Rows(c) + Columns(c)).Maximum(Rows(c) + 3); }},
};

TEST(ClientRulesTest, EachAppliesToAGraph) {
  const auto none = std::make_shared<OfflineExecutor>();
  for (const RuleRow& row : kRuleRows) {
    SCOPED_TRACE(row.rule);
    const rewrite::Rule* rule = Find(row.rule);
    ASSERT_NE(rule, nullptr);
    Client client(none);
    const uint64_t before = rule->counts.matches.load();
    const std::string kernels = Compile(row.build(client), row.fast_math);
    EXPECT_GT(rule->counts.matches.load(), before) << kernels;
  }
}

}  // namespace
}  // namespace uopd::client
