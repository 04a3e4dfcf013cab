// SPDX-License-Identifier: MIT
// Reductions and running reductions of reductions.h.
#include <limits>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/reductions.h"

namespace uopd::client::running_cases {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kInf = std::numeric_limits<double>::infinity();

class RunningTest : public OpCases {};

TEST_F(RunningTest, AnyAndAll) {
  const Tensor x = In({2, 3}, {0, 0, NAN, 1, 2, 3});
  EXPECT_THAT(Out(fn::Any(x, {1})), ElementsAre(1, 1));
  EXPECT_THAT(Out(fn::All(x, {1})), ElementsAre(0, 1));
  EXPECT_THAT(Out(fn::Any(x, {0}, true)), ElementsAre(1, 1, 1));
  EXPECT_EQ(fn::Any(x, {0}, true).dims(), (Dims{1, 3}));
  EXPECT_EQ(fn::All(x).dtype(), Dtype::Bool);
  EXPECT_THAT(Out(fn::Any(Ramp({0}))), ElementsAre(0));
  EXPECT_THAT(Out(fn::All(Ramp({0}))), ElementsAre(1));
  EXPECT_THAT(Out(fn::Any(In({}, {0}, Dtype::I32))), ElementsAre(0));
  EXPECT_THAT(Out(fn::CountNonzero(x, {1})), ElementsAre(1, 3));
  EXPECT_FALSE(fn::Any(x, {2}).status().ok());
  EXPECT_FALSE(fn::All(Tensor()).status().ok());
}

TEST_F(RunningTest, SoftmaxOfIntegersDoesNotWrap) {
  const std::vector<double> want = {std::exp(-3.0), std::exp(-2.0), 1};
  const double sum = want[0] + want[1] + want[2];
  for (const Dtype d : {Dtype::U8, Dtype::I8, Dtype::U64, Dtype::I32}) {
    const Tensor x = In({3}, {0, 1, 3}, d);
    const auto y = Out(x.Softmax()), log = Out(x.LogSoftmax());
    EXPECT_EQ(x.Softmax().dtype(), Dtype::F32);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(y[i], want[i] / sum, 1e-6) << ir::Name(d);
      EXPECT_NEAR(log[i], std::log(want[i] / sum), 1e-6) << ir::Name(d);
    }
  }
  EXPECT_THAT(Out(In({2}, {-128, 127}, Dtype::I8).Softmax()), ElementsAre(0, 1));
  EXPECT_THAT(Out(In({2}, {1, 1}, Dtype::Bool).Softmax()), ElementsAre(0.5, 0.5));
}

TEST_F(RunningTest, LogSumExp) {
  for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16}) {
    for (const Dims& dims : OddShapes()) {
      const Tensor x = Some(dims, 3, d);
      double sum = 0;
      for (double v : Out(x)) sum += std::exp(v);
      const Tensor y = fn::LogSumExp(x);
      ASSERT_EQ(y.dims(), Dims{});
      ExpectNear(Out(y), {std::log(sum)}, d, ir::Bits(d) < 32 ? 0.55 : 8, "logsumexp");
    }
  }
  EXPECT_THAT(Out(fn::LogSumExp(In({3, 2}, {1000, 1000, -kInf, -kInf, kInf, 1}, Dtype::F64), {1})),
              ElementsAre(1000 + std::log(2.0), -kInf, kInf));
  EXPECT_EQ(fn::LogSumExp(Ramp({2, 3}), {0}, true).dims(), (Dims{1, 3}));
  EXPECT_FALSE(fn::LogSumExp(Ramp({2}), {1}).status().ok());
  auto f = [](const std::vector<Tensor>& t) { return fn::LogSumExp(t[0], {1}); };
  CheckGradient({Input({2, 4})}, f);
  CheckSecondGradient({Input({2, 3})}, f);
}

// NaN is larger than all others; of equal ones the first.
std::pair<std::vector<double>, std::vector<double>> RunningMax(const std::vector<double>& x,
                                                               double sign) {
  std::vector<double> values, index;
  size_t best = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool nan = std::isnan(x[i]) && !std::isnan(x[best]);
    if (nan || sign * x[i] > sign * x[best]) best = i;
    values.push_back(x[best]), index.push_back(static_cast<double>(best));
  }
  return {values, index};
}

TEST_F(RunningTest, RunsAlongRows) {
  const std::vector<std::vector<double>> rows = {{},
                                                 {3},
                                                 {1, 3, 3, 2, 3, 4},
                                                 {NAN, 1},
                                                 {2, NAN, 1, NAN},
                                                 {-kInf, kInf, -kInf},
                                                 {0, -1, 0.5, -2, 3},
                                                 Scattered(17)};
  for (const auto& x : rows) {
    const auto n = static_cast<int64_t>(x.size());
    for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16}) {
      const Tensor t = In({n}, x, d);
      const auto in = Out(t);
      for (const bool max : {true, false}) {
        const auto [values, index] = max ? fn::CumMax(t) : fn::CumMin(t);
        const auto [want, at] = RunningMax(in, max ? 1 : -1);
        ExpectNear(Out(values), want, d, 0, "cummax");
        EXPECT_EQ(values.dtype(), d);
        EXPECT_EQ(Out(index), at);
        EXPECT_EQ(index.dtype(), Dtype::I32);
      }
      std::vector<double> product, logs;
      double p = 1, sum = 0;
      for (double v : in) product.push_back(p *= v), logs.push_back(std::log(sum += std::exp(v)));
      ExpectNear(Out(fn::CumProd(t)), product, d, ir::Bits(d) < 32 ? 0.55 : 16, "cumprod");
      ExpectNear(Out(fn::LogCumSumExp(t)), logs, d, ir::Bits(d) < 32 ? 0.55 : 16, "logcumsumexp");
    }
  }
}

TEST_F(RunningTest, AxesAndDtypes) {
  EXPECT_THAT(Out(fn::CumProd(Ramp({2, 3}, 1, 1), 0)), ElementsAre(1, 2, 3, 4, 10, 18));
  EXPECT_THAT(Out(fn::CumProd(Ramp({2, 3}, 1, 1), 1)), ElementsAre(1, 2, 6, 4, 20, 120));
  EXPECT_EQ(fn::CumProd(In({2}, {100, 100}, Dtype::U8)).dtype(), Dtype::U32);
  EXPECT_THAT(Out(fn::CumProd(In({2}, {100, 100}, Dtype::U8))), ElementsAre(100, 10000));
  EXPECT_THAT(Out(fn::CumMax(In({3}, {-128, 127, 3}, Dtype::I8)).first),
              ElementsAre(-128, 127, 127));
  EXPECT_THAT(Out(fn::CumMin(In({3}, {127, -128, 3}, Dtype::I8)).first),
              ElementsAre(127, -128, -128));
  EXPECT_THAT(Out(fn::CumMax(In({3}, {0, 1, 0}, Dtype::Bool)).first), ElementsAre(0, 1, 1));
  EXPECT_THAT(Out(fn::CumMin(In({3}, {1, 0, 1}, Dtype::Bool)).first), ElementsAre(1, 0, 0));
  EXPECT_THAT(Out(fn::CumMax(In({2, 2}, {3, 1, 2, 5}), 0).second), ElementsAre(0, 0, 0, 1));
  // Beyond f32's range on the way.
  EXPECT_THAT(Out(fn::LogCumSumExp(In({2}, {-1000, 1000}))), ElementsAre(-1000, 1000));
  EXPECT_THAT(Out(fn::CumProd(Ramp({0, 2}), 0)), IsEmpty());
  EXPECT_FALSE(fn::CumProd(Ramp({2}), 1).status().ok());
  for (const Dims& dims : {Dims{2, 1, 3}, Dims{2, 0, 3}, Dims{0, 3}, Dims{2, 3, 0}}) {
    for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis) {
      EXPECT_EQ(fn::CumMax(Ramp(dims), axis).second.dims(), dims);
      EXPECT_EQ(fn::CumMin(Ramp(dims), axis).second.dims(), dims);
    }
  }
  EXPECT_TRUE(fn::CumMax(Ramp({})).first.status().ok());
  EXPECT_FALSE(fn::CumMax(Ramp({}), 1).first.status().ok());
  EXPECT_FALSE(fn::CumMin(Tensor()).first.status().ok());
}

TEST_F(RunningTest, Gradients) {
  auto product = [](const std::vector<Tensor>& t) { return fn::CumProd(t[0], 1); };
  CheckGradient({Input({2, 5})}, product);
  CheckGradient({{{3, 4}, {1, 0, 2, 3, 0, 0, 1, 2, -1, 2, 0, 0}}}, product);
  CheckSecondGradient({Input({2, 4})}, product);
  auto largest = [](const std::vector<Tensor>& t) { return fn::CumMax(t[0], 0).first; };
  // The first of equal elements has the gradient of all results that are equal to it.
  const Tensor ties = In({6}, {1, 3, 3, 2, 3, 4}, Dtype::F64), one[] = {ties};
  const auto tied = Gradient(fn::CumMax(ties).first.Sum(), one);
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_THAT(Out((*tied)[0]), ElementsAre(1, 4, 0, 0, 0, 1));
  CheckGradient({Input({6, 2})}, largest);
  CheckSecondGradient({Input({5})},
                      [&](const std::vector<Tensor>& t) { return largest(t) * t[0]; });
  CheckGradient({Input({3, 5})},
                [](const std::vector<Tensor>& t) { return fn::CumMin(t[0], 1).first; });
  auto logs = [](const std::vector<Tensor>& t) { return fn::LogCumSumExp(t[0], 0); };
  CheckGradient({Input({5, 2})}, logs);
  CheckSecondGradient({Input({4})}, logs);
}

TEST_F(RunningTest, QuantilesOfRows) {
  const Tensor x = In({2, 4}, {4, 1, 3, 2, -1, kInf, 0, 5}, Dtype::F64);
  EXPECT_THAT(Out(fn::Median(x)), ElementsAre(2.5, 2.5));
  EXPECT_THAT(Out(fn::Quantile(x, 0, 1)), ElementsAre(1, -1));
  EXPECT_THAT(Out(fn::Quantile(x, 1, 1)), ElementsAre(4, kInf));
  EXPECT_THAT(Out(fn::Quantile(x, 0.25, 0)), ElementsAre(0.25, kInf, 0.75, 2.75));
  EXPECT_EQ(fn::Median(x, 1, true).dims(), (Dims{2, 1}));
  EXPECT_THAT(Out(fn::Median(In({3}, {1, 5, 3}, Dtype::I32))), ElementsAre(3));
  EXPECT_TRUE(std::isnan(Out(fn::Quantile(In({3}, {1, NAN, 3}), 0))[0]));
  EXPECT_FALSE(fn::Quantile(x, 1.5).status().ok());
  EXPECT_FALSE(fn::Quantile(x, NAN).status().ok());
  EXPECT_FALSE(fn::Median(Ramp({0})).status().ok());
  CheckGradient({Input({3, 5})},
                [](const std::vector<Tensor>& t) { return fn::Quantile(t[0], 0.3); });
}

TEST_F(RunningTest, CountsAndPlaces) {
  const Tensor x = In({2, 3}, {1, 3, 1, -1, 9, 0}, Dtype::I32);
  EXPECT_THAT(Out(fn::BinCount(x, 4)), ElementsAre(1, 2, 0, 1));
  EXPECT_EQ(fn::BinCount(x, 4).dtype(), Dtype::I32);
  EXPECT_THAT(Out(fn::BinCount(x, 4, In({2, 3}, {0.5, 1, 2, 4, 8, 16}))),
              ElementsAre(16, 2.5, 0, 1));
  EXPECT_THAT(Out(fn::BinCount(x, 0)), IsEmpty());
  EXPECT_THAT(Out(fn::BinCount(In({0}, {}, Dtype::I32), 2)), ElementsAre(0, 0));
  EXPECT_FALSE(fn::BinCount(Ramp({2}), 2).status().ok());
  EXPECT_FALSE(fn::BinCount(x, 2, Ramp({2})).status().ok());
  EXPECT_FALSE(fn::BinCount(x, -1).status().ok());
  const Tensor sorted = In({4}, {1, 3, 3, 5}), v = In({5}, {0, 3, 4, 9, NAN});
  EXPECT_THAT(Out(fn::SearchSorted(sorted, v)), ElementsAre(0, 1, 3, 4, 4));
  EXPECT_THAT(Out(fn::SearchSorted(sorted, v, true)), ElementsAre(0, 3, 3, 4, 4));
  EXPECT_THAT(Out(fn::SearchSorted(In({0}, {}), v)), ElementsAre(0, 0, 0, 0, 0));
  const Tensor with_nan = In({3}, {1, 2, NAN});
  EXPECT_THAT(Out(fn::SearchSorted(with_nan, In({2}, {NAN, kInf}))), ElementsAre(2, 2));
  EXPECT_THAT(Out(fn::SearchSorted(with_nan, In({1}, {NAN}), true)), ElementsAre(3));
  EXPECT_FALSE(fn::SearchSorted(Ramp({2, 2}), v).status().ok());
}

}  // namespace
}  // namespace uopd::client::running_cases
