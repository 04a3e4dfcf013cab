// SPDX-License-Identifier: MIT
// Long reductions on devices that run blocks: the schedules, and their kernels on the interpreter of kernels for
// GPUs, against the tensor interpreter.
#include "core/schedule/prepare/split_reduce.h"

#include <functional>

#include "core/codegen/codegen.h"
#include "core/ir/build.h"
#include "core/ir/verify/spec.h"
#include "gtest/gtest.h"
#include "tests/support/lowered_run.h"
#include "tests/support/model_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::GraphBuilder;
using test::HostArray;

// What ran: the kernels, and the blocks of each launch.
struct Ran {
  std::vector<int64_t> blocks;
  std::vector<HostArray> got, want;
};

class SplitReduceTest : public ::testing::Test {
 protected:
  using Build = std::function<void(ir::UOpContext&, GraphBuilder&)>;

  Ran Run(const Build& build, const Target& target = tests::BlockTarget(true)) {
    Ran out;
    ir::UOpContext ctx;
    GraphBuilder g(ctx);
    build(ctx, g);
    const UOp sink = g.Finish();
    EXPECT_TRUE(ir::Verify(ctx, sink, ir::Level::kTensor).ok());
    Options options;
    options.limits = KernelLimits::Of(target);
    const auto schedule = MakeSchedule(ctx, sink, options);
    EXPECT_TRUE(schedule.ok()) << StatusText(schedule.status());
    if (!schedule.ok()) return out;
    // Small whole numbers, whose sums are exact.
    std::vector<HostArray> slots;
    for (const Slot& slot : schedule->slots) {
      const ir::Dims dims(slot.dims.begin(), slot.dims.end());
      std::vector<double> values(static_cast<size_t>(ir::Product(dims)));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>((i * 7919 + slots.size() * 5) % 13 % 5) - 2;
      slots.push_back(HostArray::Of(slot.dtype, dims, values));
    }
    const auto run = [&](ir::UOpContext& kernel, UOp body, tests::Memory& memory,
                         const test::Variables& variables) -> absl::Status {
      UOPD_ASSIGN(const codegen::LoweredKernel lowered, codegen::Lower(kernel, body, target, {}));
      out.blocks.push_back(lowered.launch.grid[0].Evaluate({}));
      return tests::RunLowered(kernel, lowered, target, memory, variables);
    };
    auto got = test::RunSchedule(*schedule, slots, {}, run);
    auto want = test::TensorInterpreter(ctx).Run(sink, slots);
    EXPECT_TRUE(got.ok()) << StatusText(got.status());
    EXPECT_TRUE(want.ok()) << StatusText(want.status());
    if (got.ok()) out.got = *std::move(got);
    if (want.ok()) out.want = *std::move(want);
    return out;
  }
  static void ExpectSame(const Ran& ran, double tolerance = 0) {
    ASSERT_EQ(ran.got.size(), ran.want.size());
    for (size_t i = 0; i < ran.want.size(); ++i) {
      const std::vector<double> a = ran.got[i].ToDoubles(), b = ran.want[i].ToDoubles();
      for (size_t at = 0; at < b.size(); ++at)
        ASSERT_NEAR(a[at], b[at], tolerance * std::abs(b[at])) << "slot " << i << " element " << at;
    }
  }
};

TEST_F(SplitReduceTest, ASumToOneNumberUsesEveryProcessor) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I64}) {
    const Ran ran = Run([&](auto&, auto& g) { g.Output(g.Sum(g.Input({1 << 16}, dtype), {0})); });
    ASSERT_EQ(ran.blocks.size(), 2u);
    EXPECT_EQ(ran.blocks[0], 8);
    EXPECT_EQ(ran.blocks[1], 1);
    if (dtype != Dtype::F16 && dtype != Dtype::BF16) ExpectSame(ran);
  }
}

TEST_F(SplitReduceTest, PartialSumsOfSmallFloatsAreNotRounded) {
  // 65536 terms whose sum no bf16 partial sum could hold exactly.
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16}) {
    const Ran small = Run([&](auto&, auto& g) { g.Output(g.Sum(g.Input({1 << 16}, dtype), {0})); });
    const Ran wide = Run([&](auto& ctx, auto& g) {
      g.Output(
          ir::Cast(ctx, g.Sum(ir::Cast(ctx, g.Input({1 << 16}, dtype), Dtype::F64), {0}), dtype));
    });
    EXPECT_EQ(small.got.back().ToDoubles(), wide.want.back().ToDoubles());
  }
}

TEST_F(SplitReduceTest, EveryReductionOfAnOddLength) {
  for (const Op op : {Op::ADD, Op::MAX}) {
    for (const Dtype dtype : {Dtype::F32, Dtype::I32, Dtype::U8, Dtype::I64}) {
      const Ran ran = Run([&](auto& ctx, auto& g) {
        const int64_t axis = 0;
        const UOp x = g.Input({50021}, dtype);  // a prime
        // All terms are negative: the padding must not be the largest one.
        const UOp below = dtype == Dtype::U8 ? x : ir::Sub(ctx, x, g.Const(x, 100));
        g.Output(ir::ReduceAxes(ctx, op, below, std::span(&axis, 1)));
      });
      EXPECT_EQ(ran.blocks.size(), 2u);
      EXPECT_GT(ran.blocks[0], 1);
      ExpectSame(ran);
    }
  }
}

TEST_F(SplitReduceTest, ProductsOfAllElements) {
  const Ran ran = Run([&](auto& ctx, auto& g) {
    const int64_t axis = 0;
    const UOp x = g.Input({50021}, Dtype::I32),
              odd = ir::Add(ctx, ir::Mul(ctx, x, g.Const(x, 2)), g.Const(x, 1));
    g.Output(ir::ReduceAxes(ctx, Op::MUL, odd, std::span(&axis, 1)));
  });
  EXPECT_EQ(ran.blocks.size(), 2u);
  ExpectSame(ran);
}

TEST_F(SplitReduceTest, ColumnSums) {
  const Ran ran = Run([&](auto&, auto& g) { g.Output(g.Sum(g.Input({4096, 40}), {0})); });
  ASSERT_EQ(ran.blocks.size(), 2u);
  EXPECT_GE(ran.blocks[0], 4);
  ExpectSame(ran);
}

TEST_F(SplitReduceTest, SoftmaxOfOneLongRow) {
  const Ran ran =
      Run([&](auto&, auto& g) { g.Output(g.Softmax(g.Input({1, 1 << 16}, Dtype::F64))); });
  // Partial and whole maximum, partial and whole sum, results.
  ASSERT_EQ(ran.blocks.size(), 5u);
  EXPECT_EQ(ran.blocks[0], 8);
  EXPECT_EQ(ran.blocks[2], 8);
  EXPECT_GE(ran.blocks[4], 4);
  ExpectSame(ran, 1e-11);
}

TEST_F(SplitReduceTest, LayerNormOfFewLongRows) {
  const Ran ran =
      Run([&](auto&, auto& g) { g.Output(g.LayerNorm(g.Input({2, 1 << 15}, Dtype::F64))); });
  ASSERT_EQ(ran.blocks.size(), 5u);
  EXPECT_GE(ran.blocks[0], 4);
  EXPECT_GE(ran.blocks[4], 4);
  ExpectSame(ran, 1e-11);
}

// The factors of a product with few tiles and a long sum.
TEST_F(SplitReduceTest, SplitK) {
  const Ran ran = Run([&](auto&, auto& g) {
    g.Output(g.Relu(g.MatMul(g.Input({32, 2048}), g.Input({2048, 32}))));
  });
  ASSERT_EQ(ran.blocks.size(), 2u);
  EXPECT_GE(ran.blocks[0], 4);
  ExpectSame(ran);
}

TEST_F(SplitReduceTest, ShortReductionsAndManyResultsStayOneKernel) {
  const std::vector<Build> graphs = {
      [](auto&, auto& g) { g.Output(g.Sum(g.Input({4096}), {0})); },
      [](auto&, auto& g) { g.Output(g.Sum(g.Input({64, 4096}), {1})); },
      [](auto&, auto& g) { g.Output(g.Softmax(g.Input({16, 1024}))); },
      [](auto&, auto& g) { g.Output(g.MatMul(g.Input({128, 128}), g.Input({128, 128}))); },
  };
  for (const Build& build : graphs) {
    const Ran ran = Run(build);
    EXPECT_EQ(ran.blocks.size(), 1u);
    ExpectSame(ran, 1e-3);
  }
}

TEST_F(SplitReduceTest, TheSameInEveryRun) {
  const Build build = [](auto&, auto& g) { g.Output(g.Sum(g.Exp(g.Input({50021})), {0})); };
  EXPECT_EQ(Run(build).got.back().ToDoubles(), Run(build).got.back().ToDoubles());
}

}  // namespace
}  // namespace uopd::schedule
