// SPDX-License-Identifier: MIT
// What is computed into memory of a kernel's own, and what is not.
#include "core/schedule/fusion/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/model_graphs.h"

namespace uopd {
namespace {

using ir::Dims;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;

std::vector<int64_t> StagesOf(const schedule::Item& item) {
  ir::UOpContext ctx;
  std::vector<int64_t> out;
  const auto kernel = ir::Decode(ctx, item.graph, ir::Level::kKernel);
  EXPECT_TRUE(kernel.ok()) << StatusText(kernel.status());
  if (!kernel.ok()) return out;
  for (UOp u : ir::Toposort(ctx, *kernel)) {
    if (u.Is(Op::STAGE)) out.push_back(u.arg().AsInt());
  }
  return out;
}

class Staging : public ::testing::Test {
 protected:
  struct Made {
    size_t kernels = 0;
    std::vector<int64_t> stages;  // elements of each, ascending
    bool operator==(const Made&) const = default;
  };

  Made Schedule(const schedule::Options& options = {}) {
    const UOp sink = g_->Finish();
    const absl::Status valid = ir::Verify(ctx_, sink, ir::Level::kTensor);
    EXPECT_TRUE(valid.ok()) << StatusText(valid);
    const auto s = schedule::MakeSchedule(ctx_, sink, options);
    EXPECT_TRUE(s.ok()) << StatusText(s.status());
    if (!s.ok()) return {};
    Made out = {s->items.size(), {}};
    for (const schedule::Item& item : s->items) {
      const std::vector<int64_t> mine = StagesOf(item);
      out.stages.insert(out.stages.end(), mine.begin(), mine.end());
    }
    std::sort(out.stages.begin(), out.stages.end());
    return out;
  }
  Made Attention(const Dims& queries, const Dims& keys, const schedule::Options& options = {}) {
    g_->Output(g_->Attention(g_->Input(queries), g_->Input(keys), g_->Input(keys)));
    return Schedule(options);
  }

  ir::UOpContext ctx_;
  std::optional<GraphBuilder> g_{std::in_place, ctx_};
};

TEST_F(Staging, AttentionHasRowsOfScoresExponentialsAndProbabilities) {
  EXPECT_EQ(Attention({4, 16, 32}, {4, 24, 32}), (Made{1, {24, 24, 24}}));
}

TEST_F(Staging, NothingWithoutMemoryForIt) {
  schedule::Options options;
  options.stage_bytes = 0;
  EXPECT_EQ(Attention({4, 16, 32}, {4, 24, 32}, options), (Made{3, {}}));
}

TEST_F(Staging, RowsThatDoNotFitAreWritten) {
  schedule::Options options;
  options.stage_bytes = 4 * 23;
  EXPECT_EQ(Attention({4, 16, 32}, {4, 24, 32}, options), (Made{3, {}}));
}

// The loop over the depth goes inside of that over the queries, whichever comes first in memory.
TEST_F(Staging, OutputLoopsComeInTheOrderThatStagingNeeds) {
  g_->Output(g_->Transpose(
      g_->Attention(g_->Input({4, 16, 32}), g_->Input({4, 24, 32}), g_->Input({4, 24, 32}))));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
}

// A reshape of the result has one axis for several: the loops are those of the parts.
class StagingOfMergedAxes : public Staging {
 protected:
  UOp OfHeads(int64_t heads, int64_t groups, bool causal) {
    const UOp q = g_->Input({2, heads, 16, 32});
    auto keys = [&] {
      const UOp k = g_->Input({2, groups, 1, 24, 32});
      const Dims all = {2, groups, heads / groups, 24, 32};
      return g_->Reshape(ir::Expand(ctx_, k, ir::ShapeArg(ctx_, all)), {2, heads, 24, 32});
    };
    UOp scores = g_->MatMul(q, g_->Transpose(keys()));
    if (causal) {
      const UOp shape = ir::ShapeArg(ctx_, Dims{16, 24});
      const UOp row = ir::Iota(ctx_, ir::Dtype::I32, shape, 0),
                column = ir::Iota(ctx_, ir::Dtype::I32, shape, 1);
      scores = ir::Where(ctx_, ir::Lt(ctx_, row, column), g_->Const(scores, -1e30), scores);
    }
    return g_->MatMul(g_->Softmax(scores), keys());
  }
};

TEST_F(StagingOfMergedAxes, HeadsSideBySide) {
  for (const bool causal : {false, true}) {
    for (const int64_t groups : {6, 2}) {
      SCOPED_TRACE(::testing::Message() << groups << " groups" << (causal ? ", causal" : ""));
      g_.emplace(ctx_);
      g_->Output(g_->Reshape(g_->Permute(OfHeads(6, groups, causal), {0, 2, 1, 3}), {2, 16, 192}));
      EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
    }
  }
}

TEST_F(StagingOfMergedAxes, AddedToSomething) {
  const UOp attended = g_->Reshape(g_->Permute(OfHeads(6, 6, false), {0, 2, 1, 3}), {2, 16, 192});
  g_->Output(ir::Add(ctx_, attended, g_->Input({2, 16, 192})));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
}

TEST_F(StagingOfMergedAxes, InMemoryOfItsOwn) {
  const UOp attended = g_->Reshape(g_->Permute(OfHeads(6, 6, false), {0, 2, 1, 3}), {32, 192});
  const UOp kept = g_->Contiguous(attended);
  g_->Output(g_->MatMul(kept, g_->Input({192, 192})));
  EXPECT_EQ(Schedule(), (Made{2, {24, 24, 24}}));
}

TEST_F(StagingOfMergedAxes, AllAxesInOne) {
  g_->Output(g_->Reshape(OfHeads(6, 6, false), {2 * 6 * 16 * 32}));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
}

TEST_F(StagingOfMergedAxes, AllAxesInOneInAnotherOrder) {
  g_->Output(g_->Reshape(g_->Permute(OfHeads(6, 6, false), {0, 2, 1, 3}), {2 * 16 * 6 * 32}));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
}

// The depth is the outer part of the axis, or in the middle of it.
TEST_F(StagingOfMergedAxes, RemaindersAndWhatIsInTheMiddle) {
  g_->Output(g_->Reshape(g_->Permute(OfHeads(6, 6, false), {0, 2, 3, 1}), {2, 16, 192}));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
  g_.emplace(ctx_);
  g_->Output(g_->Reshape(g_->Permute(OfHeads(6, 6, false), {0, 1, 3, 2}), {2, 6 * 32 * 16}));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
}

// A second output over the same axes joins, though its own are not cut.
TEST_F(StagingOfMergedAxes, OutputsStillJoin) {
  const UOp attended = g_->Reshape(g_->Permute(OfHeads(6, 6, false), {0, 2, 1, 3}), {2, 16, 192});
  g_->Output(attended);
  g_->Output(ir::Mul(ctx_, attended, g_->Input({2, 16, 192})));
  EXPECT_EQ(Schedule(), (Made{1, {24, 24, 24}}));
}

// Nothing is cut where that stages nothing.
TEST_F(StagingOfMergedAxes, ProductsOfLargeMatricesHaveTilesInstead) {
  const UOp hidden = g_->MatMul(g_->Input({4, 512, 512}), g_->Input({4, 512, 512}));
  const UOp out = g_->MatMul(hidden, g_->Input({4, 512, 512}));
  g_->Output(g_->Reshape(g_->Permute(out, {1, 0, 2}), {512, 2048}));
  EXPECT_EQ(Schedule(), (Made{2, {}}));
}

TEST_F(Staging, SmallFloatsTakeTheRoomOfLargeOnes) {
  for (const int64_t columns : {16384, 16385}) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    g.Output(g.Softmax(g.Input({64, columns}, ir::Dtype::F16)));
    const auto s = schedule::MakeSchedule(ctx, g.Finish(), {});
    ASSERT_TRUE(s.ok()) << StatusText(s.status());
    EXPECT_EQ(StagesOf(s->items[0]).size(), columns == 16384 ? 1u : 0u);
  }
}

// One query for each head against as many keys as there are by now.
TEST_F(Staging, SymbolicRowsHaveTheirLargestSize) {
  const UOp keys = ir::Variable(ctx_, "keys", 1, 100);
  const ir::SymbolicDims shape = {ctx_.Idx(8), keys, ctx_.Idx(32)};
  auto known = [&] {
    return ir::Shrink(ctx_, g_->Input({8, 100, 32}), ir::ShapeArg(ctx_, Dims{0, 0, 0}),
                      ir::ShapeArg(ctx_, ir::Shape(shape)));
  };
  const UOp scores = g_->Sum(ir::Mul(ctx_, g_->Input({8, 1, 32}), known()), {2});
  const UOp e = g_->Exp(ir::Sub(ctx_, scores, g_->Max(scores, {1})));
  const UOp p = ir::Alu(ctx_, Op::FDIV, {e, g_->Sum(e, {1})});
  g_->Output(g_->Sum(ir::Mul(ctx_, p, known()), {1}));
  EXPECT_EQ(Schedule(), (Made{1, {100, 100, 100}}));
}

// The exponential would be computed for the sum and again for the quotient.
TEST_F(Staging, SoftmaxHasItsExponentials) {
  g_->Output(g_->Softmax(g_->Input({64, 128})));
  EXPECT_EQ(Schedule(), (Made{1, {128}}));
}

// What costs no more than loading it again is computed again.
TEST_F(Staging, NormalisingHasNothing) {
  g_->Output(g_->LayerNorm(g_->Input({64, 128})));
  EXPECT_EQ(Schedule(), (Made{1, {}}));
}

TEST_F(Staging, ReductionsThatShareALoopShareItsValues) {
  const UOp x = g_->Exp(g_->Input({64, 128}));
  g_->Output(g_->Sum(x, {1}));
  g_->Output(g_->Max(x, {1}));
  EXPECT_EQ(Schedule(), (Made{1, {}}));
}

// Only the loops around a staged value are split among threads.
TEST_F(Staging, AFewRowsLeaveThreadsWithoutWork) {
  g_->Output(g_->Softmax(g_->Input({2, 4096})));
  EXPECT_TRUE(Schedule().stages.empty());
}

// Layers for one row: threads share the rows of each matrix of weights.
TEST_F(Staging, LayersForOneRowAreWritten) {
  const UOp wide = g_->Relu(g_->MatMul(g_->Input({1, 512}), g_->Input({512, 2048})));
  const UOp narrow = g_->MatMul(wide, g_->Input({2048, 512}));
  // Each element of the narrow layer is used twice, as by a rotary embedding.
  const UOp halves = g_->Reshape(narrow, {2, 256});
  const UOp swapped = ir::Flip(ctx_, halves, Dims{0});
  g_->Output(ir::Add(ctx_, ir::Mul(ctx_, halves, g_->Input({2, 256})),
                     ir::Mul(ctx_, swapped, g_->Input({2, 256}))));
  schedule::Options options;
  options.limits.threads = 2;
  EXPECT_EQ(Schedule(options), (Made{3, {}}));
}

TEST_F(Staging, AttentionOfOneRowIsSplit) {
  const Made made = Attention({1, 1, 64}, {1, 4096, 64});
  EXPECT_GT(made.kernels, 1u);
}

// Every row would read the whole second matrix.
TEST_F(Staging, ProductsOfLargeMatricesHaveTilesInstead) {
  g_->Output(
      g_->MatMul(g_->MatMul(g_->Input({512, 512}), g_->Input({512, 512})), g_->Input({512, 512})));
  EXPECT_EQ(Schedule(), (Made{2, {}}));
}

TEST_F(Staging, WhatAnotherKernelReadsIsWritten) {
  const UOp q = g_->Input({4, 16, 32}), k = g_->Input({4, 24, 32});
  const UOp scores = g_->MatMul(q, g_->Transpose(k));
  g_->Output(g_->MatMul(g_->Softmax(scores), k));
  g_->Output(g_->Sum(scores, {1}));
  const Made made = Schedule();
  EXPECT_EQ(made.stages, (std::vector<int64_t>{24, 24}));
}

TEST_F(Staging, AKernelHasRoomForAFewRows) {
  UOp x = g_->Input({64, 16384});  // 64 KiB a row
  for (int i = 0; i < 8; ++i) x = g_->Softmax(x);
  g_->Output(x);
  for (const int64_t n : Schedule().stages) EXPECT_EQ(n, 16384);
}

// A table of a few elements is no kernel of its own, a large one is.
TEST_F(Staging, TinyTablesAreComputedWhereTheyAreUsed) {
  for (const int64_t n : {16, 4096}) {
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    const UOp place = ir::Iota(ctx, ir::Dtype::I32, ir::ShapeArg(ctx, Dims{n}), 0);
    const UOp angles = ir::Alu(ctx, Op::SIN, {ir::Cast(ctx, place, ir::Dtype::F32)});
    g.Output(ir::Add(ctx, g.Input({n == 16 ? 8 : 256, n}), angles));
    const auto s = schedule::MakeSchedule(ctx, g.Finish(), {});
    ASSERT_TRUE(s.ok()) << StatusText(s.status());
    EXPECT_EQ(s->items.size(), n == 16 ? 1u : 2u);
  }
}

}  // namespace
}  // namespace uopd
