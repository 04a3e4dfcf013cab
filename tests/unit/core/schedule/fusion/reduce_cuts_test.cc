// SPDX-License-Identifier: MIT
// A sum whose terms come in blocks: which scales of blocks its kernel computes, and which scales
// another kernel writes before.
#include "core/schedule/fusion/reduce_cuts.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/model_graphs.h"

namespace uopd {
namespace {

using ir::Op;
using ir::UOp;
using test::GraphBuilder;

class ReduceCuts : public ::testing::Test {
 protected:
  // Rows of whole blocks: small integers times a number for each block that takes some work.
  UOp Weights(int64_t rows, int64_t blocks, int64_t block) {
    const UOp q = ir::Cast(ctx_, g_.Input({rows, blocks, block}, ir::Dtype::U8), ir::Dtype::F32);
    return g_.Reshape(ir::Mul(ctx_, q, Scale({rows, blocks, 1})), {rows, blocks * block});
  }
  // Numbers that cost more than a load.
  UOp Scale(const ir::Dims& dims) {
    const UOp x = g_.Input(dims);
    return ir::Add(ctx_, ir::Mul(ctx_, g_.Exp(x), x), g_.Const(x, 1));
  }
  void Product(int64_t tokens, UOp weights) {
    const UOp x = g_.Input({tokens, g_.DimsOf(weights)[1]});
    g_.Output(g_.MatMul(x, g_.Transpose(weights)));
  }

  // Sums of products of bytes in each block, times a scale that all rows share. One operand are
  // nibbles of words. The device multiplies bytes.
  void ProductOfNibbles(int64_t tokens) {
    for (const DtypeNumber bytes : {DtypeNumber::U8, DtypeNumber::I8})
      options_.limits.factors.Add(bytes);
    const int64_t rows = 512, blocks = 48;
    const ir::Dims sums = {tokens, rows, blocks}, all = {tokens, rows, blocks, 2, 4, 4};
    const auto expand = [&](UOp x) { return ir::Expand(ctx_, x, ir::ShapeArg(ctx_, all)); };
    const auto shifted = [&](UOp x, int64_t axis, int64_t step) {
      const UOp at = ir::Iota(ctx_, ir::Dtype::U32, ir::ShapeArg(ctx_, all), axis);
      return ir::Alu(ctx_, Op::SHR,
                     {x, ir::Mul(ctx_, at, g_.Const(at, static_cast<double>(step)))});
    };
    const UOp halves = shifted(expand(g_.Input({1, rows, blocks, 1, 4, 1}, ir::Dtype::U32)), 3, 4);
    const UOp nibbles = ir::Alu(ctx_, Op::AND, {halves, g_.Const(halves, 0x0f0f0f0f)});
    const UOp q = ir::Cast(ctx_, shifted(nibbles, 5, 8), ir::Dtype::U8);
    const UOp x = g_.Input({tokens, 1, blocks, 2, 4, 4}, ir::Dtype::I8);
    const UOp product =
        ir::Mul(ctx_, ir::Cast(ctx_, q, ir::Dtype::I32), expand(ir::Cast(ctx_, x, ir::Dtype::I32)));
    const UOp dots = g_.Reshape(g_.Sum(product, {3, 4, 5}), sums);
    const UOp scale = ir::Expand(ctx_, g_.Input({tokens, 1, blocks}), ir::ShapeArg(ctx_, sums));
    g_.Output(g_.Sum(ir::Mul(ctx_, ir::Cast(ctx_, dots, ir::Dtype::F32), scale), {2}));
  }

  size_t Kernels() {
    const UOp sink = g_.Finish();
    const absl::Status valid = ir::Verify(ctx_, sink, ir::Level::kTensor);
    EXPECT_TRUE(valid.ok()) << StatusText(valid);
    const auto s = schedule::MakeSchedule(ctx_, sink, options_);
    EXPECT_TRUE(s.ok()) << StatusText(s.status());
    if (!s.ok()) return 0;
    last_ = s->items.back().graph;
    return s->items.size();
  }

  // The sizes of the loops of the sums in the last kernel.
  std::multiset<int64_t> Loops() {
    ir::UOpContext ctx;
    std::multiset<int64_t> out;
    const auto kernel = ir::Decode(ctx, last_, ir::Level::kKernel);
    EXPECT_TRUE(kernel.ok()) << StatusText(kernel.status());
    if (!kernel.ok()) return out;
    for (UOp u : ir::Toposort(ctx, *kernel)) {
      if (u.Is(Op::RANGE) && u.axis_type() == ir::AxisType::REDUCE)
        out.insert(u.src(0).const_int());
    }
    return out;
  }

  ir::UOpContext ctx_;
  GraphBuilder g_{ctx_};
  std::string last_;
  schedule::Options options_;
};

TEST_F(ReduceCuts, TheScaleOfABlockIsComputedBetweenTheLoops) {
  Product(1, Weights(100, 18, 32));
  EXPECT_EQ(Kernels(), 1U);
  EXPECT_EQ(Loops(), (std::multiset<int64_t>{18, 32}));
}

TEST_F(ReduceCuts, ScalesOfTwoLevels) {
  const UOp q = ir::Cast(ctx_, g_.Input({100, 3, 8, 32}, ir::Dtype::U8), ir::Dtype::F32);
  const UOp inner = ir::Mul(ctx_, Scale({100, 3, 8, 1}), Scale({100, 3, 1, 1}));
  Product(1, g_.Reshape(ir::Mul(ctx_, q, inner), {100, 768}));
  EXPECT_EQ(Kernels(), 1U);
  EXPECT_EQ(Loops(), (std::multiset<int64_t>{3, 8, 32}));
}

// Neither the numbers nor the sums of integers are written.
TEST_F(ReduceCuts, SumsOfIntegersStayBesideTheirScales) {
  ProductOfNibbles(1);
  EXPECT_EQ(Kernels(), 1U);
}
TEST_F(ReduceCuts, ManyRowsTakeNumbersOutOfWordsToo) {
  ProductOfNibbles(32);
  EXPECT_EQ(Kernels(), 1U);
}

TEST_F(ReduceCuts, AScaleForManyRowsIsWritten) {
  Product(256, Weights(2000, 18, 32));
  EXPECT_GE(Kernels(), 2U);
}

TEST_F(ReduceCuts, AScaleOfARowNeedsNoCut) {
  const UOp q = ir::Cast(ctx_, g_.Input({25, 4, 64}, ir::Dtype::U8), ir::Dtype::F32);
  Product(1, g_.Reshape(ir::Mul(ctx_, q, Scale({25, 4, 1})), {100, 64}));
  EXPECT_EQ(Kernels(), 1U);
  EXPECT_EQ(Loops(), (std::multiset<int64_t>{64}));
}

TEST_F(ReduceCuts, AScaleOfEveryTermIsComputedOnce) {
  // Every term has a scale of its own, which all rows share.
  const UOp q = ir::Cast(ctx_, g_.Input({100, 576}, ir::Dtype::U8), ir::Dtype::F32);
  Product(1, ir::Mul(ctx_, q, Scale({1, 576})));
  EXPECT_EQ(Kernels(), 2U);
  EXPECT_EQ(Loops(), (std::multiset<int64_t>{576}));
}

}  // namespace
}  // namespace uopd
