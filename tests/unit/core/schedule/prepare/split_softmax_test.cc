// SPDX-License-Identifier: MIT
#include "core/schedule/prepare/split_softmax.h"

#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/verify/spec.h"
#include "gtest/gtest.h"
#include "tests/support/model_graphs.h"
#include "tests/support/schedule_interpreter.h"

namespace uopd::schedule {
namespace {

using ir::Dtype;
using ir::UOp;
using test::HostArray;

constexpr double kInf = std::numeric_limits<double>::infinity();

// 64 scores can be staged, so blocks have 4 keys.
Options Short() {
  Options options;
  options.stage_bytes = 256;
  return options;
}

class SplitSoftmaxTest : public ::testing::Test {
 protected:
  bool Changes(const Options& options = Short()) {
    const UOp sink = g_->Finish();
    EXPECT_TRUE(ir::Verify(ctx_, sink, ir::Level::kTensor).ok());
    const UOp made = SplitSoftmaxes(ctx_, ir::Toposort(ctx_, sink), options);
    const absl::Status ok = ir::Verify(ctx_, made, ir::Level::kTensor);
    EXPECT_TRUE(ok.ok()) << ok;
    return made != sink;
  }

  // The contents of the last slot after a run with the interpreter.
  std::vector<double> Run(const std::vector<HostArray>& inputs, const Options& options) {
    const UOp sink = g_->Finish();
    const auto schedule = MakeSchedule(ctx_, sink, options);
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    std::vector<HostArray> slots = inputs;
    for (size_t i = slots.size(); i < schedule->slots.size(); ++i) {
      const auto& dims = schedule->slots[i].dims;
      slots.push_back(HostArray::Zeros(schedule->slots[i].dtype, {dims.begin(), dims.end()}));
    }
    const auto got = test::RunSchedule(*schedule, slots);
    EXPECT_TRUE(got.ok()) << got.status();
    return got->back().ToDoubles();
  }

  ir::UOpContext ctx_;
  std::optional<test::GraphBuilder> g_{std::in_place, ctx_};
};

struct Sizes {
  int64_t heads, queries, keys, depth;
};

std::vector<double> Values(int64_t n, uint32_t seed, double scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  std::vector<double> out(static_cast<size_t>(n));
  for (double& v : out) v = normal(random);
  return out;
}

// softmax(q k^T / sqrt(depth) + bias) v in doubles. `bias` [queries, keys] may be empty.
std::vector<double> Reference(const Sizes& n, const std::vector<double>& q,
                              const std::vector<double>& k, const std::vector<double>& v,
                              const std::vector<double>& bias) {
  std::vector<double> out;
  for (int64_t row = 0; row < n.heads * n.queries; ++row) {
    const int64_t head = row / n.queries;
    std::vector<double> s(static_cast<size_t>(n.keys));
    double most = -kInf, sum = 0;
    for (int64_t j = 0; j < n.keys; ++j) {
      double& x = s[size_t(j)];
      for (int64_t d = 0; d < n.depth; ++d)
        x += q[size_t(row * n.depth + d)] * k[size_t((head * n.keys + j) * n.depth + d)];
      x /= std::sqrt(static_cast<double>(n.depth));
      if (!bias.empty()) x += bias[size_t(row % n.queries * n.keys + j)];
      most = std::isnan(x) || std::isnan(most) ? NAN : std::max(most, x);
    }
    for (double& x : s) sum += x = std::exp(x - most);
    for (int64_t d = 0; d < n.depth; ++d) {
      double y = 0;
      for (int64_t j = 0; j < n.keys; ++j)
        y += s[size_t(j)] / sum * v[size_t((head * n.keys + j) * n.depth + d)];
      out.push_back(y);
    }
  }
  return out;
}

void ExpectClose(const std::vector<double>& got, const std::vector<double>& want,
                 double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    else
      EXPECT_NEAR(got[i], want[i], tolerance) << i;
  }
}

TEST_F(SplitSoftmaxTest, AnyNumberOfKeysGivesTheSameResult) {
  // Keys: whole blocks, blocks of half and of twice the size, a prime number, one more than can be
  // staged.
  for (const Sizes n : {Sizes{2, 9, 128, 8},
                        {1, 8, 70, 4},
                        {1, 8, 97, 5},
                        {3, 8, 65, 1},
                        {1, 11, 264, 6},
                        {1, 8, 66, 3}}) {
    SCOPED_TRACE(n.keys);
    g_.emplace(ctx_);
    const UOp q = g_->Input({n.heads, n.queries, n.depth}),
              k = g_->Input({n.heads, n.keys, n.depth}), v = g_->Input({n.heads, n.keys, n.depth});
    g_->Output(g_->Attention(q, k, v));
    EXPECT_TRUE(Changes());
    const auto a = Values(n.heads * n.queries * n.depth, 1, 3),
               b = Values(n.heads * n.keys * n.depth, 2, 3),
               c = Values(n.heads * n.keys * n.depth, 3);
    const std::vector<HostArray> inputs = {
        HostArray::Of(Dtype::F32, {n.heads, n.queries, n.depth}, a),
        HostArray::Of(Dtype::F32, {n.heads, n.keys, n.depth}, b),
        HostArray::Of(Dtype::F32, {n.heads, n.keys, n.depth}, c)};
    ExpectClose(Run(inputs, Short()), Reference(n, a, b, c, {}), 2e-5);
  }
}

TEST_F(SplitSoftmaxTest, NoRowOfScoresIsWritten) {
  constexpr int64_t kQueries = 16, kKeys = 4096, kDepth = 8;
  const UOp q = g_->Input({1, kQueries, kDepth}), k = g_->Input({1, kKeys, kDepth}),
            v = g_->Input({1, kKeys, kDepth});
  g_->Output(g_->Attention(q, k, v));
  const UOp sink = g_->Finish();
  Options options;
  options.stage_bytes = 4096;  // 1024 keys, so blocks have 64
  const auto schedule = MakeSchedule(ctx_, sink, options);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_EQ(schedule->items.size(), 2);
  for (const Temporary& t : schedule->temporaries) EXPECT_LT(t.bytes, kQueries * kKeys * 4 / 4);
}

TEST_F(SplitSoftmaxTest, MaskedBlocksInfinitiesAndNaN) {
  const Sizes n = {1, 8, 96, 2};
  const UOp q = g_->Input({1, n.queries, n.depth}), k = g_->Input({1, n.keys, n.depth}),
            v = g_->Input({1, n.keys, n.depth}), bias = g_->Input({n.queries, n.keys});
  const UOp scores = ir::Add(
      ctx_, ir::Mul(ctx_, g_->MatMul(q, g_->Transpose(k)), g_->Const(q, 1 / std::sqrt(2.0))), bias);
  g_->Output(g_->MatMul(g_->Softmax(scores), v));
  EXPECT_TRUE(Changes());
  std::vector<double> mask(static_cast<size_t>(n.queries * n.keys), 0);
  auto at = [&](int64_t row, int64_t key) -> double& { return mask[size_t(row * n.keys + key)]; };
  for (int64_t j = 0; j < n.keys; ++j) {
    if (j != 37) at(0, j) = -kInf;           // one key of one block
    if (j >= 8 && j < 90) at(1, j) = -kInf;  // whole blocks between
    at(2, j) = -kInf;                        // no key at all
    if (j > 50) at(5, j) = -1e30;            // finite, but far below
  }
  at(3, 41) = kInf;
  at(4, 77) = NAN;
  const auto a = Values(n.queries * n.depth, 4), b = Values(n.keys * n.depth, 5),
             c = Values(n.keys * n.depth, 6);
  const auto got = Run({HostArray::Of(Dtype::F32, {1, n.queries, n.depth}, a),
                        HostArray::Of(Dtype::F32, {1, n.keys, n.depth}, b),
                        HostArray::Of(Dtype::F32, {1, n.keys, n.depth}, c),
                        HostArray::Of(Dtype::F32, {n.queries, n.keys}, mask)},
                       Short());
  ExpectClose(got, Reference(n, a, b, c, mask), 1e-5);
  EXPECT_TRUE(std::isnan(got[4]) && std::isnan(got[6]) && std::isnan(got[8]));  // rows 2, 3 and 4
  EXPECT_FALSE(std::isnan(got[0]) || std::isnan(got[2]) || std::isnan(got[10]));
}

TEST_F(SplitSoftmaxTest, TheProductMayTakeTheSoftmaxInAnyOrderOfAxes) {
  // v^T p^T: the keys are the first axis of the second operand, and heads lie between.
  constexpr int64_t kHeads = 3, kQueries = 8, kKeys = 80;
  const UOp scores = g_->Input({kQueries, kHeads, kKeys}), v = g_->Input({kHeads, 5, kKeys});
  g_->Output(g_->MatMul(v, g_->Permute(g_->Softmax(scores), {1, 2, 0})));
  EXPECT_TRUE(Changes());
  const auto s = Values(kQueries * kHeads * kKeys, 7, 2), x = Values(kHeads * 5 * kKeys, 8);
  const auto got = Run({HostArray::Of(Dtype::F32, {kQueries, kHeads, kKeys}, s),
                        HostArray::Of(Dtype::F32, {kHeads, 5, kKeys}, x)},
                       Short());
  std::vector<double> want;
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t d = 0; d < 5; ++d) {
      for (int64_t q = 0; q < kQueries; ++q) {
        double sum = 0, y = 0;
        for (int64_t j = 0; j < kKeys; ++j) {
          const double e = std::exp(s[size_t((q * kHeads + h) * kKeys + j)]);
          sum += e;
          y += e * x[size_t((h * 5 + d) * kKeys + j)];
        }
        want.push_back(y / sum);
      }
    }
  }
  ExpectClose(got, want, 1e-5);
}

TEST_F(SplitSoftmaxTest, OperandsMayBeRoundedAndHalf) {
  const Sizes n = {1, 8, 80, 4};
  const auto a = Values(n.queries * n.depth, 9), b = Values(n.keys * n.depth, 10),
             c = Values(n.keys * n.depth, 11);
  const auto want = Reference(n, a, b, c, {});
  for (const Dtype dtype : {Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64}) {
    g_.emplace(ctx_);
    const UOp q = g_->Input({1, n.queries, n.depth}, dtype),
              k = g_->Input({1, n.keys, n.depth}, dtype),
              v = g_->Input({1, n.keys, n.depth}, dtype);
    g_->Output(g_->Attention(q, k, v));
    Options options = Short();
    if (dtype == Dtype::F32) {
      options.allowed_products = {DtypeNumber::BF16};
      options.limits.product_dtypes = {DtypeNumber::BF16};
    }
    EXPECT_TRUE(Changes(options));
    const std::vector<HostArray> inputs = {HostArray::Of(dtype, {1, n.queries, n.depth}, a),
                                           HostArray::Of(dtype, {1, n.keys, n.depth}, b),
                                           HostArray::Of(dtype, {1, n.keys, n.depth}, c)};
    ExpectClose(Run(inputs, options), want,
                dtype == Dtype::F64   ? 1e-12
                : dtype == Dtype::F16 ? 0.01
                                      : 0.05);
  }
}

TEST_F(SplitSoftmaxTest, WhatIsShortOrUsedElsewhereStaysWhole) {
  const UOp s = g_->Input({2, 8, 64}), v = g_->Input({2, 64, 4});
  g_->Output(g_->MatMul(g_->Softmax(s), v));
  EXPECT_FALSE(Changes()) << "64 scores can be staged";
  {
    g_.emplace(ctx_);
    const UOp p = g_->Softmax(g_->Input({2, 8, 100}));
    g_->Output(g_->MatMul(p, g_->Input({2, 100, 4})));
    EXPECT_TRUE(Changes());
    g_->Output(p);
    EXPECT_FALSE(Changes()) << "the softmax itself is a result";
  }
  {
    g_.emplace(ctx_);
    g_->Output(g_->Sum(
        ir::Mul(ctx_, g_->Softmax(g_->Input({2, 100, 100})), g_->Input({2, 100, 100})), {1}));
    EXPECT_FALSE(Changes()) << "the sum is over the queries";
  }
  {
    g_.emplace(ctx_);
    g_->Output(g_->MatMul(g_->Softmax(g_->Input({2, 7, 100})), g_->Input({2, 100, 4})));
    EXPECT_FALSE(Changes()) << "the scores of seven queries are few";
  }
  {
    g_.emplace(ctx_);
    g_->Output(g_->MatMul(g_->Softmax(g_->Input({2, 8, 100})), g_->Input({2, 100, 4})));
    Options nothing_staged;
    nothing_staged.stage_bytes = 0;
    EXPECT_FALSE(Changes(nothing_staged));
  }
}

}  // namespace
}  // namespace uopd::schedule
