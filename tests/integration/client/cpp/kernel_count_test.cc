// SPDX-License-Identifier: MIT
// How many kernels a graph becomes: the limit of each is what a good scheduler needs. Rows that are
// over their limit say by how much (`known`): the test fails when such a row gets worse, and when
// it gets better, so that the table stays true. docs/figures.md shows the same table.
#include <functional>

#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/schedule/schedule.h"
#include "gtest/gtest.h"
#include "tests/support/generated_section.h"
#include "tests/support/models/models.h"
#include "uopd/executor.h"
#include "uopd/functional.h"

namespace uopd::client {
namespace {

using Tensors = std::vector<Tensor>;

struct CountRow {
  const char* name;
  int limit;
  int known;  // 0: within the limit
  std::function<Tensors(Client&)> build;
};

absl::StatusOr<schedule::Schedule> ScheduleOf(const Tensors& tensors) {
  UOPD_ASSIGN(const Exported graph, Export(tensors));
  ir::UOpContext ctx;
  UOPD_ASSIGN(const ir::UOp sink, ir::Decode(ctx, graph.graph, ir::Level::kTensor));
  auto schedule = schedule::MakeSchedule(ctx, sink, {});
  // Nodes of models are small, with their sources, shapes, bounds and place in the tables.
  if (ctx.size() > 2000) {
    EXPECT_LT(static_cast<double>(ctx.bytes_reserved()) / static_cast<double>(ctx.size()), 100);
  }
  return schedule;
}

Tensors Mlp(Client& c, bool adam) {
  std::unique_ptr<Optimizer> optimizer;
  return test::MlpStep(c, adam, optimizer);
}

// [batch, heads, queries, depth] as what comes after attention takes it.
Tensor SideBySide(const Tensor& x) {
  const Dims d = x.dims();
  return x.Permute({0, 2, 1, 3}).Reshape({d[0], d[2], d[1] * d[3]});
}

const CountRow kCountRows[] = {
    {"a + b", 1, 0, [](Client& c) { return Tensors{c.Empty({64}) + c.Empty({64})}; }},
    {"softmax", 1, 0, [](Client& c) { return Tensors{c.Empty({64, 128}).Softmax()}; }},
    {"layer norm", 1, 0,
     [](Client& c) {
       return Tensors{fn::LayerNorm(c.Empty({64, 128}), c.Empty({128}), c.Empty({128}))};
     }},
    {"log softmax", 1, 0, [](Client& c) { return Tensors{c.Empty({64, 128}).LogSoftmax()}; }},
    {"rms norm", 1, 0,
     [](Client& c) { return Tensors{fn::RmsNorm(c.Empty({64, 128}), c.Empty({128}))}; }},
    {"attention", 1, 0,
     [](Client& c) {
       const Dims d = {2, 4, 16, 32};
       return Tensors{fn::Attention(c.Empty(d), c.Empty(d), c.Empty(d))};
     }},
    {"attention, causal", 1, 0,
     [](Client& c) {
       const Dims d = {2, 4, 16, 32};
       return Tensors{fn::Attention(c.Empty(d), c.Empty(d), c.Empty(d), {}, {.causal = true})};
     }},
    {"attention, masked, heads in groups", 1, 0,
     [](Client& c) {
       const Dims d = {2, 8, 16, 32}, kv = {2, 2, 16, 32};
       return Tensors{fn::Attention(c.Empty(d), c.Empty(kv), c.Empty(kv), c.Empty({16, 16}))};
     }},
    {"attention, heads put side by side", 1, 0,
     [](Client& c) {
       const Dims d = {2, 4, 16, 32};
       return Tensors{SideBySide(fn::Attention(c.Empty(d), c.Empty(d), c.Empty(d)))};
     }},
    {"attention, causal, heads put side by side", 1, 0,
     [](Client& c) {
       const Dims d = {2, 4, 16, 32};
       return Tensors{
           SideBySide(fn::Attention(c.Empty(d), c.Empty(d), c.Empty(d), {}, {.causal = true}))};
     }},
    {"attention, heads in groups put side by side", 1, 0,
     [](Client& c) {
       const Dims d = {2, 8, 16, 32}, kv = {2, 2, 16, 32};
       return Tensors{
           SideBySide(fn::Attention(c.Empty(d), c.Empty(kv), c.Empty(kv), {}, {.causal = true}))};
     }},
    {"a - sum(a)", 2, 0,
     [](Client& c) {
       const Tensor a = c.Empty({64, 64});
       return Tensors{a - a.Sum()};
     }},
    {"matmul, relu", 1, 0,
     [](Client& c) { return Tensors{c.Empty({64, 32}).MatMul(c.Empty({32, 48})).Relu()}; }},
    {"two chained matmuls", 2, 0,
     [](Client& c) {
       return Tensors{c.Empty({64, 32}).MatMul(c.Empty({32, 48})).MatMul(c.Empty({48, 64}))};
     }},
    {"elementwise into two reduces", 2, 0,
     [](Client& c) {
       const Tensor x = c.Empty({64, 64}).Exp() + 1.0;
       return Tensors{x.Sum({1}), x.Max({1})};
     }},
    {"x + x transposed", 1, 0,
     [](Client& c) {
       const Tensor x = c.Empty({64, 64});
       return Tensors{x + x.Transpose()};
     }},
    {"one reduce used by two outputs", 3, 0,
     [](Client& c) {
       const Tensor x = c.Empty({64, 64}), sum = x.Sum({1}, true);
       return Tensors{x + sum, x * sum};
     }},
    {"elementwise with two outputs", 2, 0,
     [](Client& c) {
       const Tensor x = c.Empty({64, 64}).Exp();
       return Tensors{x + 1.0, x * 2.0};
     }},
    {"conv, relu", 1, 0,
     [](Client& c) {
       return Tensors{
           fn::Conv(c.Empty({1, 8, 16, 16}), c.Empty({16, 8, 3, 3}), c.Empty({16})).Relu()};
     }},
    {"conv, conv", 2, 0,
     [](Client& c) {
       const Tensor y = fn::Conv(c.Empty({1, 8, 16, 16}), c.Empty({16, 8, 3, 3}));
       return Tensors{fn::Conv(y, c.Empty({16, 16, 3, 3}))};
     }},
    {"conv, batch norm in training, relu", 4, 0,
     [](Client& c) {
       const Tensor y = fn::Conv(c.Empty({4, 8, 16, 16}), c.Empty({16, 8, 3, 3}));
       const auto [var, mean] = y.VarMean({0, 2, 3}, false, 0);
       return Tensors{fn::BatchNorm(y, mean, var, c.Empty({16}), c.Empty({16})).Relu()};
     }},
    {"sum of 1024 x 1024", 2, 0, [](Client& c) { return Tensors{c.Empty({1024, 1024}).Sum()}; }},
    {"arange, used", 1, 0, [](Client& c) { return Tensors{c.Empty({64}) + c.Arange(0, 64)}; }},
    {"gather", 1, 0,
     [](Client& c) { return Tensors{c.Empty({64, 32}).Gather(0, c.Empty({16, 32}, Dtype::I32))}; }},
    {"cumsum of 1000", 1, 0, [](Client& c) { return Tensors{c.Empty({1000}).CumSum()}; }},
    {"concat", 1, 0,
     [](Client& c) {
       const Tensor parts[] = {c.Empty({3, 8}), c.Empty({5, 8})};
       return Tensors{Concat(parts)};
     }},
    {"rand", 4, 0, [](Client& c) { return Tensors{c.Rand({64})}; }},
    {"argmax", 2, 0, [](Client& c) { return Tensors{c.Empty({64, 128}).Argmax()}; }},
    {"sort of 64", 4, 0,
     [](Client& c) {
       const auto [values, index] = c.Empty({64}).Sort();
       return Tensors{values, index};
     }},
    {"var and mean", 3, 0,
     [](Client& c) {
       const auto [var, mean] = c.Empty({64, 128}).VarMean({1});
       return Tensors{var, mean};
     }},
    {"cross entropy", 3, 0,
     [](Client& c) { return Tensors{c.Empty({64, 10}).CrossEntropy(c.Empty({64}, Dtype::I32))}; }},
    {"perceptron, step of SGD", 16, 0, [](Client& c) { return Mlp(c, false); }},
    {"perceptron, step of Adam", 30, 0, [](Client& c) { return Mlp(c, true); }},
    {"ResNet-50", 51, 0,
     [](Client& c) {
       test::ResNet model(c, test::ResNet::Shape50());
       return Tensors{model.Forward(c.Empty({1, 3, 224, 224}), false)};
     }},
    {"Llama decode step", 234, 0,
     [](Client& c) {
       test::Llama model(c, {});
       return test::DecodeStep(c, model, 17);
     }},
    {"ResNet-18, step of Adam", 471, 0,
     [](Client& c) {
       test::TrainStep train(c, test::ResNet::Shape18(), 8, 224);
       auto step = train.Step();
       return step.ok() ? *step : Tensors();
     }},
    {"GPT-2 forward", 201, 0, [](Client& c) { return test::Gpt2Forward(c, 1, 64); }},
};

TEST(KernelCountTest, WithinTheLimits) {
  std::string table = "\n| graph | kernels | limit |\n|---|---|---|\n";
  for (const CountRow& row : kCountRows) {
    Client client(std::make_shared<OfflineExecutor>());
    const auto schedule = ScheduleOf(row.build(client));
    ASSERT_TRUE(schedule.ok()) << row.name << ": " << schedule.status();
    const auto count = static_cast<int>(schedule->items.size());
    Append(table, "| ", row.name, " | ", count, " | ", row.limit, " |\n");
    if (row.known == 0) {
      EXPECT_LE(count, row.limit) << row.name;
    } else {
      EXPECT_GT(row.known, row.limit) << row.name << ": it is within its limit; known is 0 then";
      EXPECT_EQ(count, row.known) << row.name << ": the table says otherwise";
    }
  }
  test::ExpectGenerated("figures.md", "kernel counts", table + "\n");
}

// How often the graphs of a schedule's kernels have a RANGE of this size.
int LoopsOver(const schedule::Schedule& schedule, int64_t size) {
  int loops = 0;
  for (const schedule::Item& item : schedule.items) {
    if (item.kind != schedule::Item::kKernel) continue;
    ir::UOpContext ctx;
    const auto sink = ir::Decode(ctx, item.graph, ir::Level::kKernel);
    EXPECT_TRUE(sink.ok()) << sink.status();
    if (!sink.ok()) continue;
    for (ir::UOp u : ir::Toposort(ctx, *sink))
      loops += u.Is(ir::Op::RANGE) && u.src(0).IsConstInt(size);
  }
  return loops;
}

// Picking rows by number is a load for each element: no loop over the rows, nothing stored but the
// result, whichever of rows and columns are more.
TEST(KernelCountTest, AnEmbeddingIsALoad) {
  for (const Dims& weight : {Dims{4099, 8}, Dims{11, 768}}) {
    Client c(std::make_shared<OfflineExecutor>());
    const Tensor rows = fn::Embedding(c.Empty(weight), c.Empty({4, 6}, Dtype::I32));
    const auto schedule = ScheduleOf({rows * 2.0});
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    EXPECT_EQ(schedule->items.size(), 1u);
    EXPECT_TRUE(schedule->temporaries.empty());
    EXPECT_EQ(LoopsOver(*schedule, weight[0]), 0);
  }
}

TEST(KernelCountTest, PickingByAnyArangeNeedsNoLoop) {
  for (const Dtype dtype : {Dtype::I32, Dtype::I64, Dtype::U32}) {
    for (const int64_t first : {0, 5}) {
      if (dtype == Dtype::I64 && first != 0) continue;  // the index less 5 may be no i64
      Client c(std::make_shared<OfflineExecutor>());
      const Tensor place = c.Arange(first, first + 997, 1, dtype).Reshape({997, 1});
      const Tensor index = c.Empty({16, 1, 1}, dtype);
      const Tensor picked = Where(place == index, c.Empty({997, 64}), 0.0).Sum({1});
      const auto schedule = ScheduleOf({picked});
      ASSERT_TRUE(schedule.ok()) << schedule.status();
      EXPECT_EQ(schedule->items.size(), 1u) << ir::Name(dtype) << " from " << first;
      EXPECT_EQ(LoopsOver(*schedule, 997), 0) << ir::Name(dtype) << " from " << first;
    }
  }
}

// Of the vocabulary there are the logits and the search for the largest of them, no mask over it.
// The largest is found in chunks, by two kernels.
TEST(KernelCountTest, DecodingLoopsOverTheVocabularyForLogitsOnly) {
  Client c(std::make_shared<OfflineExecutor>());
  test::LlamaShape shape;
  shape.layers = 2;
  test::Llama model(c, shape);
  const auto schedule = ScheduleOf(test::DecodeStep(c, model, 17));
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(LoopsOver(*schedule, shape.vocab), 2);
  for (const schedule::Temporary& t : schedule->temporaries) EXPECT_NE(t.bytes, shape.vocab);
}

// A causal mask is compared where it is needed, not stored.
TEST(KernelCountTest, AMaskOfPositionsIsNotStored) {
  Client c(std::make_shared<OfflineExecutor>());
  const Tensor row = c.Arange(0, 64).Reshape({64, 1}), column = c.Arange(0, 64);
  const Tensor x = c.Empty({512, 64, 64});
  const auto schedule = ScheduleOf({Where(row < column, c.Full({}, 0.0), x)});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->items.size(), 1u);
  EXPECT_TRUE(schedule->temporaries.empty());
}

// An arange is index arithmetic: a graph with it has no more kernels and no more memory.
TEST(KernelCountTest, ArangeCostsNothing) {
  Client client(std::make_shared<OfflineExecutor>());
  const Tensor sum = client.Empty({64}) + client.Arange(0, 64);
  const auto schedule = ScheduleOf({sum});
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->items.size(), 1u);
  EXPECT_TRUE(schedule->temporaries.empty());
  EXPECT_EQ(schedule->slots.size(), 2u);
}

}  // namespace
}  // namespace uopd::client
