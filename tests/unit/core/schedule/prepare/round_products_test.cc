// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/round_products.h"

#include <bit>
#include <cmath>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/graph_generator.h"
#include "tests/support/model_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using test::HostArray;

Options Allowed(DtypeNumberSet allowed, std::vector<DtypeNumber> device) {
  Options options;
  options.allowed_products = allowed;
  options.limits.product_dtypes = std::move(device);
  return options;
}
Options Bf16() { return Allowed({DtypeNumber::BF16}, {DtypeNumber::BF16}); }

// To the nearest bf16, ties to even: independent of the compiler's conversions.
double ToBf16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return value;
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// To the nearest tf32, ties away from zero: of numbers that are neither NaN nor near infinity.
double ToTf32(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return std::bit_cast<float>((bits + 0x1000) & 0xffffe000);
}
Options Tf32() { return Allowed({DtypeNumber::TF32}, {DtypeNumber::TF32}); }

class RoundProductsTest : public ::testing::Test {
 protected:
  // How many sums of products the pass changes in the graph so far.
  int Rewritten(const Options& options = Bf16()) {
    const UOp sink = g_.Finish();
    EXPECT_TRUE(ir::Verify(ctx_, sink, ir::Level::kTensor).ok());
    const UOp made = RoundProducts(ctx_, ir::Toposort(ctx_, sink), options);
    const absl::Status ok = ir::Verify(ctx_, made, ir::Level::kTensor);
    EXPECT_TRUE(ok.ok()) << ok;
    int n = 0;
    for (UOp u : ir::Toposort(ctx_, made)) {
      if (!u.Is(Op::REDUCE) || !u.src(0).Is(Op::MUL)) continue;
      bool all = true;
      for (UOp s : u.src(0).srcs()) {
        all &= s.Is(Op::CAST) && s.dtype() == Dtype::F32 && ir::IsSmallFloat(s.src(0).dtype());
      }
      n += all ? 1 : 0;
    }
    return n;
  }

  // Values of many magnitudes that are no bf16.
  static std::vector<double> Values(int64_t n, int salt) {
    std::vector<double> out(static_cast<size_t>(n));
    for (size_t i = 0; i < out.size(); ++i) {
      const auto k = static_cast<int>((i * 2654435761u + static_cast<size_t>(salt) * 97) % 4093);
      out[i] = static_cast<float>(std::ldexp(1 + k / 4093.0, k % 7 - 3) * (k % 2 == 0 ? 1 : -1));
    }
    return out;
  }

  // Slot 0 after a run of the graph with the interpreter.
  std::vector<double> Run(const Options& options, const std::vector<HostArray>& inputs,
                          int output) {
    const UOp sink = g_.Finish();
    const auto schedule = MakeSchedule(ctx_, sink, options);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    std::vector<HostArray> slots = inputs;
    for (size_t i = slots.size(); i < schedule->slots.size(); ++i) {
      const auto& dims = schedule->slots[i].dims;
      slots.push_back(HostArray::Zeros(schedule->slots[i].dtype, {dims.begin(), dims.end()}));
    }
    const auto got = test::RunSchedule(*schedule, slots);
    EXPECT_TRUE(got.ok()) << got.status();
    return (*got)[static_cast<size_t>(output)].ToDoubles();
  }

  ir::UOpContext ctx_;
  test::GraphBuilder g_{ctx_};
};

TEST_F(RoundProductsTest, OperandsAreRoundedOnceAndTheSumStaysInF32) {
  constexpr int64_t kM = 5, kK = 37, kN = 7;
  const UOp left = g_.Input({kM, kK});
  g_.Output(g_.MatMul(left, g_.Input({kK, kN})));
  const auto a = Values(kM * kK, 1), b = Values(kK * kN, 2);
  const std::vector<HostArray> inputs = {HostArray::Of(Dtype::F32, {kM, kK}, a),
                                         HostArray::Of(Dtype::F32, {kK, kN}, b)};
  const auto exact = Run({}, inputs, 2), rounded = Run(Bf16(), inputs, 2),
             finer = Run(Tf32(), inputs, 2);
  double largest_change = 0, finer_change = 0;
  for (int64_t i = 0; i < kM; ++i) {
    for (int64_t j = 0; j < kN; ++j) {
      double sum = 0, of_rounded = 0, of_finer = 0, magnitude = 0;
      for (int64_t k = 0; k < kK; ++k) {
        const double x = a[size_t(i * kK + k)], y = b[size_t(k * kN + j)];
        sum += x * y;
        of_rounded += ToBf16(x) * ToBf16(y);
        of_finer += ToTf32(x) * ToTf32(y);
        magnitude += std::abs(x * y);
      }
      const auto at = static_cast<size_t>(i * kN + j);
      const double bound = magnitude * kK * 0x1p-24;  // of a sum in f32
      EXPECT_NEAR(exact[at], sum, bound);
      EXPECT_NEAR(rounded[at], of_rounded, bound);
      EXPECT_NEAR(finer[at], of_finer, bound);
      // Two operands, each rounded by up to half of the last of 11 bits.
      EXPECT_NEAR(finer[at], sum, magnitude * 2.001 * 0x1p-11 + bound);
      largest_change = std::max(largest_change, std::abs(rounded[at] - sum) - bound);
      finer_change = std::max(finer_change, std::abs(finer[at] - sum) - bound);
    }
  }
  EXPECT_GT(largest_change, 0);  // the test would see it if nothing were rounded
  EXPECT_GT(finer_change, 0);
}

TEST_F(RoundProductsTest, SpecialValuesStayWhatTheyAre) {
  const UOp left = g_.Input({4, 1});
  g_.Output(g_.MatMul(left, g_.Input({1, 2})));
  const std::vector<double> a = {INFINITY, NAN, -0.0, 3.39e38};
  const std::vector<HostArray> inputs = {HostArray::Of(Dtype::F32, {4, 1}, a),
                                         HostArray::Of(Dtype::F32, {1, 2}, std::vector{2.0, 0.0})};
  const auto got = Run(Bf16(), inputs, 2);
  EXPECT_EQ(got[0], INFINITY);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_TRUE(std::isnan(got[3]));
  EXPECT_EQ(got[4], 0);
  EXPECT_EQ(got[6], INFINITY);  // 3.39e38 rounds to infinity, as every conversion to bf16 does
  const auto finer = Run(Tf32(), inputs, 2);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(std::isnan(finer[i]), std::isnan(got[i])) << i;
    if (!std::isnan(got[i])) {
      EXPECT_EQ(finer[i], got[i]) << i;
    }
  }
  EXPECT_EQ(finer[6], INFINITY);  // 2 * 3.39e38
  EXPECT_EQ(finer[7], 0);         // a finite number of tf32
}

TEST_F(RoundProductsTest, OnlyWithPermissionAndInstruction) {
  g_.Output(g_.MatMul(g_.Input({4, 8}), g_.Input({8, 4})));
  const UOp sink = g_.Finish();
  const auto same = [&](const Options& options) {
    return RoundProducts(ctx_, ir::Toposort(ctx_, sink), options) == sink;
  };
  EXPECT_TRUE(same({}));
  EXPECT_TRUE(same(Allowed({}, {DtypeNumber::BF16})));
  EXPECT_TRUE(same(Allowed({DtypeNumber::BF16}, {})));
  EXPECT_TRUE(same(Allowed({DtypeNumber::F16}, {DtypeNumber::BF16})));
  EXPECT_FALSE(same(Bf16()));
}

TEST_F(RoundProductsTest, TheDevicesBestInstructionDecides) {
  g_.Output(g_.MatMul(g_.Input({4, 8}), g_.Input({8, 4})));
  const UOp sink = g_.Finish();
  const auto has = [&](Dtype dtype, const Options& options) {
    const UOp made = RoundProducts(ctx_, ir::Toposort(ctx_, sink), options);
    return std::ranges::any_of(ir::Toposort(ctx_, made), [&](UOp u) { return u.dtype() == dtype; });
  };
  const DtypeNumberSet both = {DtypeNumber::BF16, DtypeNumber::F16};
  const Options options = Allowed(both, {DtypeNumber::F16, DtypeNumber::BF16});
  EXPECT_TRUE(has(Dtype::F16, options));
  EXPECT_FALSE(has(Dtype::BF16, options));
  EXPECT_TRUE(has(Dtype::BF16, Allowed({DtypeNumber::BF16}, options.limits.product_dtypes)));
}

// tf32 holds every value of the other small floats, and instructions for those are faster.
TEST_F(RoundProductsTest, ProductsOfSmallFloatsNeedNoTf32) {
  const auto half = [&](ir::Dims dims) {
    return ir::Cast(ctx_, ir::Cast(ctx_, g_.Input(dims), Dtype::F16), Dtype::F32);
  };
  const auto rounds = [&](UOp a, UOp b) {
    const UOp sink = ctx_.Make(Op::SINK, Dtype::Void, {g_.MatMul(a, b)});
    const UOp made = RoundProducts(ctx_, ir::Toposort(ctx_, sink), Tf32());
    return std::ranges::any_of(ir::Toposort(ctx_, made),
                               [](UOp u) { return u.dtype() == Dtype::TF32; });
  };
  EXPECT_FALSE(rounds(half({4, 8}), half({8, 4})));
  EXPECT_TRUE(rounds(half({4, 8}), g_.Input({8, 4})));
}

TEST_F(RoundProductsTest, TheTargetSaysWhichProductsItHas) {
  Target target;
  target.matrix_instructions = {
      {"int8", 1, 16, 4, DtypeNumber::U8, DtypeNumber::I8, DtypeNumber::I32},
      {"bf16_tile", 16, 16, 32, DtypeNumber::BF16, DtypeNumber::BF16, DtypeNumber::F32},
      {"bf16_dot", 1, 16, 2, DtypeNumber::BF16, DtypeNumber::BF16, DtypeNumber::F32},
      {"f16_tile", 16, 16, 32, DtypeNumber::F16, DtypeNumber::F16, DtypeNumber::F32},
      {"tf32_tile", 16, 8, 8, DtypeNumber::TF32, DtypeNumber::TF32, DtypeNumber::F32}};
  EXPECT_THAT(KernelLimits::Of(target).product_dtypes,
              ::testing::ElementsAre(DtypeNumber::BF16, DtypeNumber::F16, DtypeNumber::TF32));
  EXPECT_THAT(KernelLimits::Of(Target()).product_dtypes, ::testing::IsEmpty());
}

TEST_F(RoundProductsTest, ProductsOfMatricesAndConvolutions) {
  g_.Output(g_.MatMul(g_.Input({3, 4, 8}), g_.Input({3, 8, 4})));  // in batches
  EXPECT_EQ(Rewritten(), 1);
  g_.Output(g_.MatMul(g_.Input({1, 8}), g_.Input({8, 5})));  // one row
  EXPECT_EQ(Rewritten(), 2);
  g_.Output(g_.Conv2d(g_.Input({2, 3, 9, 9}), g_.Input({4, 3, 3, 3}), 1));
  EXPECT_EQ(Rewritten(), 3);
  const UOp x = g_.Input({2, 6, 8});
  g_.Output(g_.Attention(x, g_.Input({2, 6, 8}), g_.Input({2, 6, 8})));
  EXPECT_EQ(Rewritten(), 5);
}

TEST_F(RoundProductsTest, OtherSumsStayExact) {
  const UOp x = g_.Input({16, 16}), y = g_.Input({16, 16});
  const auto sum = [&](UOp product, ir::Dims axes) { g_.Output(g_.Sum(product, axes)); };
  sum(ir::Mul(ctx_, x, y), {0, 1});  // a dot product
  sum(ir::Mul(ctx_, x, x), {1});     // squares
  sum(ir::Mul(ctx_, x, y), {1});     // every value is used once
  sum(ir::Mul(ctx_, x, ctx_.Float(Dtype::F32, 0.3)), {1});
  // Weights of the reduced axis only: no value is used by two results.
  const UOp once = ir::Reshape(ctx_, g_.Input({1, 16}), ir::ShapeArg(ctx_, ir::Dims{1, 16}));
  sum(ir::Mul(ctx_, g_.Reshape(g_.Input({16}), {1, 16}), once), {1});
  // A lookup in a table by a mask.
  const UOp place = ir::Iota(ctx_, Dtype::I32, ir::ShapeArg(ctx_, ir::Dims{4, 16, 1}), 1);
  const UOp wanted = g_.Reshape(g_.Input({4}, Dtype::I32), {4, 1, 1});
  const UOp mask = ir::Not(ctx_, ir::Alu(ctx_, Op::CMPNE, {place, wanted}));
  const UOp table = g_.Reshape(x, {1, 16, 16});
  sum(ir::Mul(ctx_, ir::Cast(ctx_, mask, Dtype::F32), table), {1});
  // Other dtypes.
  g_.Output(g_.MatMul(g_.Input({4, 8}, Dtype::F64), g_.Input({8, 4}, Dtype::F64)));
  g_.Output(g_.MatMul(g_.Input({4, 8}, Dtype::I32), g_.Input({8, 4}, Dtype::I32)));
  const UOp sink = g_.Finish();
  EXPECT_EQ(RoundProducts(ctx_, ir::Toposort(ctx_, sink), Bf16()), sink);
}

TEST_F(RoundProductsTest, BroadcastsBelowOtherMovementsCount) {
  // [16] becomes [16, 5] by EXPAND, is transposed and merged: still one value for 5 results.
  const UOp x = g_.Reshape(g_.Input({16}), {16, 1});
  const UOp wide = ir::Expand(ctx_, x, ir::ShapeArg(ctx_, ir::Dims{16, 5}));
  const UOp turned = g_.Permute(wide, {1, 0});
  g_.Output(g_.Sum(ir::Mul(ctx_, turned, g_.Input({5, 16})), {1}));
  EXPECT_EQ(Rewritten(), 1);
  // The EXPAND is along the reduced axis.
  g_.Output(g_.Sum(ir::Mul(ctx_, wide, g_.Input({16, 5})), {1}));
  EXPECT_EQ(Rewritten(), 1);
}

TEST_F(RoundProductsTest, SmallOperandsAreLeftAsTheyAre) {
  const UOp a = ir::Cast(ctx_, g_.Input({4, 8}, Dtype::BF16), Dtype::F32);
  g_.Output(g_.MatMul(a, ir::Cast(ctx_, g_.Input({8, 4}, Dtype::BF16), Dtype::F32)));
  const UOp sink = g_.Finish();
  const UOp made = RoundProducts(ctx_, ir::Toposort(ctx_, sink), Bf16());
  for (UOp u : ir::Toposort(ctx_, made)) {
    EXPECT_FALSE(u.Is(Op::CAST) && u.dtype() == Dtype::BF16);
  }
}

TEST_F(RoundProductsTest, AnOperandThatIsUsedOftenIsRoundedByAKernelOfItsOwn) {
  g_.Output(g_.MatMul(g_.Input({256, 256}), g_.Input({256, 256})));
  auto schedule = MakeSchedule(ctx_, g_.Finish(), Bf16());
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->items.size(), 3u);
  ASSERT_EQ(schedule->temporaries.size(), 2u);
  for (const Temporary& t : schedule->temporaries) EXPECT_EQ(t.bytes, 2 * 256 * 256);
}

TEST_F(RoundProductsTest, OtherOperandsAreRoundedWhereTheyAreUsed) {
  g_.Output(g_.MatMul(g_.Input({1, 256}), g_.Input({256, 256})));
  const auto schedule = MakeSchedule(ctx_, g_.Finish(), Bf16());
  ASSERT_TRUE(schedule.ok());
  // The row is used for all columns. Of the matrix, every element is used once.
  ASSERT_EQ(schedule->temporaries.size(), 1u);
  EXPECT_EQ(schedule->temporaries[0].bytes, 2 * 256);
  EXPECT_EQ(schedule->items.size(), 2u);
}

TEST_F(RoundProductsTest, ALayerWritesItsResultForTheNextLayer) {
  // relu(x w1) w2: the value between the layers is written once, in bf16.
  const UOp hidden = g_.Relu(g_.MatMul(g_.Input({256, 256}), g_.Input({256, 256})));
  g_.Output(g_.MatMul(hidden, g_.Input({256, 256})));
  const auto schedule = MakeSchedule(ctx_, g_.Finish(), Bf16());
  ASSERT_TRUE(schedule.ok());
  EXPECT_EQ(schedule->items.size(), 5u);  // three inputs are rounded, two products
  for (const Temporary& t : schedule->temporaries) EXPECT_EQ(t.bytes, 2 * 256 * 256);
}

TEST_F(RoundProductsTest, AttentionStaysOneKernel) {
  const auto kernels = [](const Options& options) {
    ir::UOpContext ctx;
    test::GraphBuilder g(ctx);
    const auto input = [&] { return g.Input({4, 64, 64}); };
    const UOp q = input(), k = input(), v = input();
    g.Output(g.Attention(q, k, v));
    const auto schedule = MakeSchedule(ctx, g.Finish(), options);
    EXPECT_TRUE(schedule.ok());
    int n = 0;  // that compute more than a conversion of an input
    for (const Item& item : schedule->items) n += item.buffers.size() > 2 ? 1 : 0;
    return n;
  };
  EXPECT_EQ(kernels(Bf16()), kernels({}));
}

// Schedules of random graphs compute what the rewritten graph says.
TEST(RoundProductsFuzz, SchedulesComputeTheRewrittenGraph) {
  int rewritten = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    ir::UOpContext ctx;
    const test::GeneratedGraph g =
        test::GenerateGraph(ctx, seed, {.ops = 4 + static_cast<int>(seed % 40)});
    const Options options = Allowed({DtypeNumber::BF16, DtypeNumber::F16},
                                    {seed % 2 == 0 ? DtypeNumber::BF16 : DtypeNumber::F16});
    const UOp made = RoundProducts(ctx, ir::Toposort(ctx, g.sink), options);
    const absl::Status verified = ir::Verify(ctx, made, ir::Level::kTensor);
    ASSERT_TRUE(verified.ok()) << verified;
    rewritten += made != g.sink ? 1 : 0;
    const auto want = test::TensorInterpreter(ctx).Run(made, g.slots, g.variables);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto schedule = MakeSchedule(ctx, g.sink, options);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    const auto got = test::RunSchedule(*schedule, g.slots, g.variables);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < want->size(); ++i) {
      const auto a = (*got)[i].ToDoubles(), b = (*want)[i].ToDoubles();
      for (size_t at : g.visible[i]) {
        if (std::isnan(a[at]) && std::isnan(b[at])) continue;  // f16 may overflow
        ASSERT_EQ(a[at], b[at]) << "slot " << i << " element " << at;
      }
    }
  }
  RecordProperty("rewritten", rewritten);
}

}  // namespace
}  // namespace uopd::schedule
