// SPDX-License-Identifier: MIT
// How many kernels and copies well-known computations become.
#include <gtest/gtest.h>

#include "core/ir/build.h"
#include "core/ir/verify/spec.h"
#include "core/schedule/schedule.h"
#include "tests/support/model_graphs.h"

namespace uopd {
namespace {

using ir::Dims;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;

class KernelCount : public ::testing::Test {
 protected:
  size_t Count() {
    const UOp sink = g_.Finish();
    const absl::Status valid = ir::Verify(ctx_, sink, ir::Level::kTensor);
    EXPECT_TRUE(valid.ok()) << StatusText(valid);
    const auto s = schedule::MakeSchedule(ctx_, sink, {});
    EXPECT_TRUE(s.ok()) << StatusText(s.status());
    return s.ok() ? s->items.size() : 0;
  }

  ir::UOpContext ctx_;
  GraphBuilder g_{ctx_};
};

TEST_F(KernelCount, Add) {
  g_.Output(ir::Add(ctx_, g_.Input({64, 64}), g_.Input({64, 64})));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, AddOfItsTranspose) {
  const UOp x = g_.Input({64, 64});
  g_.Output(ir::Add(ctx_, x, g_.Transpose(x)));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, Softmax) {
  g_.Output(g_.Softmax(g_.Input({128, 128})));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, LayerNorm) {
  g_.Output(g_.LayerNorm(g_.Input({128, 128})));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, MinusItsSum) {
  const UOp x = g_.Input({100});
  g_.Output(ir::Sub(ctx_, x, g_.Sum(x, {0})));
  EXPECT_LE(Count(), 2u);
}
TEST_F(KernelCount, MatMulRelu) {
  g_.Output(g_.Relu(g_.MatMul(g_.Input({64, 64}), g_.Input({64, 64}))));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, TwoChainedMatMuls) {
  const Dims d = {256, 256};
  g_.Output(g_.MatMul(g_.MatMul(g_.Input(d), g_.Input(d)), g_.Input(d)));
  EXPECT_EQ(Count(), 2u);
}
TEST_F(KernelCount, TwoSmallChainedMatMuls) {
  g_.Output(g_.MatMul(g_.MatMul(g_.Input({64, 64}), g_.Input({64, 64})), g_.Input({64, 64})));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, ElementwiseIntoTwoReduces) {
  const UOp x = g_.Relu(g_.Input({64, 64}));
  g_.Output(g_.Sum(x, {1}));
  g_.Output(g_.Max(x, {1}));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, ElementwiseIntoReducesOfOtherAxes) {
  const UOp x = g_.Relu(g_.Input({64, 64}));
  g_.Output(g_.Sum(x, {1}));
  g_.Output(g_.Sum(x, {0}));
  EXPECT_EQ(Count(), 2u);
}
TEST_F(KernelCount, ReduceIntoTwoOutputs) {
  const UOp x = g_.Sum(g_.Input({64, 64}), {1});
  g_.Output(ir::Add(ctx_, x, g_.Const(x, 1)));
  g_.Output(ir::Mul(ctx_, x, g_.Const(x, 2)));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, ElementwiseWithTwoOutputs) {
  const UOp x = g_.Exp(g_.Input({64, 64}));
  g_.Output(x);
  g_.Output(ir::Add(ctx_, x, g_.Const(x, 2)));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, OutputUsedByAReduce) {
  const UOp x = g_.MatMul(g_.Input({64, 64}), g_.Input({64, 64}));
  g_.Output(x);
  g_.Output(g_.Sum(x, {0}));
  EXPECT_EQ(Count(), 2u);
}
TEST_F(KernelCount, ConvRelu) {
  g_.Output(g_.Relu(g_.Conv2d(g_.Input({2, 8, 16, 16}), g_.Input({8, 8, 3, 3}), 1)));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, ConvConv) {
  const UOp x = g_.Conv2d(g_.Input({2, 8, 16, 16}), g_.Input({8, 8, 3, 3}), 1);
  g_.Output(g_.Conv2d(x, g_.Input({8, 8, 3, 3}), 1));
  EXPECT_EQ(Count(), 2u);
}
TEST_F(KernelCount, ConvBatchNormRelu) {
  const UOp x = g_.Conv2d(g_.Input({2, 8, 16, 16}), g_.Input({8, 8, 3, 3}), 1);
  g_.Output(g_.Relu(g_.BatchNorm(x)));
  EXPECT_LE(Count(), 3u);
}
TEST_F(KernelCount, FullSum) {
  g_.Output(g_.Sum(g_.Input({1024, 1024}), {0, 1}));
  EXPECT_EQ(Count(), 2u);
}
TEST_F(KernelCount, MeanAndVariance) {
  const UOp x = g_.Input({64, 32, 14, 14});
  const UOp mean = g_.Mean(x, {0, 2, 3}), d = ir::Sub(ctx_, x, mean);
  g_.Output(g_.Mean(ir::Mul(ctx_, d, d), {0, 2, 3}));
  g_.Output(mean);
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, CatByPads) {
  const UOp a = g_.Input({8, 4}), b = g_.Input({8, 4});
  g_.Output(ir::Add(ctx_, g_.Pad(a, {0, 0}, {16, 4}), g_.Pad(b, {8, 0}, {16, 4})));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, Attention) {
  g_.Output(g_.Attention(g_.Input({4, 64, 32}), g_.Input({4, 64, 32}), g_.Input({4, 64, 32})));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, CrossEntropy) {
  const UOp x = g_.Input({128, 10}), target = g_.Input({128, 10});
  const UOp shifted = ir::Sub(ctx_, x, g_.Max(x, {1}));
  const UOp log = ir::Alu(ctx_, Op::LOG2, {g_.Sum(g_.Exp(shifted), {1})});
  const UOp lost = ir::Mul(ctx_, target, ir::Sub(ctx_, log, shifted));
  g_.Output(g_.Mean(g_.Sum(lost, {1}), {0}));
  EXPECT_LE(Count(), 3u);
}
TEST_F(KernelCount, ContiguousOfABufferIsNoKernel) {
  const UOp x = g_.Input({8, 8});
  g_.Output(ir::Add(ctx_, g_.Contiguous(x), g_.Contiguous(g_.Reshape(x, {8, 8}))));
  EXPECT_EQ(Count(), 1u);
}
TEST_F(KernelCount, AdamUpdatesAParameterInOneKernel) {
  const auto s = schedule::MakeSchedule(ctx_, test::AdamGraph(ctx_, 5, 32, 16), {});
  ASSERT_TRUE(s.ok());
  EXPECT_EQ(s->items.size(), 5u);
  for (const schedule::Item& item : s->items) EXPECT_EQ(item.buffers.size(), 4u);
}

}  // namespace
}  // namespace uopd
