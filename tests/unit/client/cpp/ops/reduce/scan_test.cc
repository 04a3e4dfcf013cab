// SPDX-License-Identifier: MIT
// Running sums, and the smaller operations that came with them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/unit/client/cpp/gradient_check.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class ScanTest : public OperationTest {};

TEST_F(ScanTest, SumsUp) {
  for (int64_t n : {1, 2, 255, 512, 513, 1000}) {
    daemon_->check_schedule = n <= 255;  // the interpreter of kernels takes its time
    const auto x = Scattered(static_cast<size_t>(n));
    std::vector<double> want(x.size());
    std::partial_sum(x.begin(), x.end(), want.begin());
    EXPECT_THAT(Out(In({n}, x, Dtype::F64).CumSum()), Pointwise(DoubleNear(1e-10), want)) << n;
  }
}

TEST_F(ScanTest, SumsUpAnyAxisAndDtype) {
  EXPECT_THAT(Out(Ramp({2, 3}).CumSum(0)), ElementsAre(0, 1, 2, 3, 5, 7));
  EXPECT_THAT(Out(Ramp({2, 3}).CumSum(1)), ElementsAre(0, 1, 3, 3, 7, 12));
  EXPECT_EQ(In({2}, {200, 100}, Dtype::U8).CumSum().dtype(), Dtype::U32);
  EXPECT_THAT(Out(In({2}, {200, 100}, Dtype::U8).CumSum()), ElementsAre(200, 300));
  EXPECT_THAT(Out(In({3}, {1, 0, 1}, Dtype::Bool).CumSum()), ElementsAre(1, 1, 2));
  EXPECT_THAT(Out(Ramp({0}).CumSum()), IsEmpty());
  // What comes later does not leak.
  const auto y = Out(In({3}, {1, INFINITY, NAN}).CumSum());
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_FALSE(Ramp({2}).CumSum(1).status().ok());
  CheckGradient({Input({2, 4})}, [](const std::vector<Tensor>& t) { return t[0].CumSum(); });
}

// The sum of all elements before is kept in f64, so the error does not grow with the length.
TEST_F(ScanTest, SumsUpLongRowsExactly) {
  daemon_->check_schedule = false;  // the interpreter of kernels takes its time
  const int64_t n = 100003;
  std::vector<double> x(n), want(n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(1.0 / static_cast<double>(i + 3));
  std::partial_sum(x.begin(), x.end(), want.begin());
  const auto y = Out(In({n}, x).CumSum());
  for (size_t i = 0; i < x.size(); i += 7) ASSERT_NEAR(y[i], want[i], 4e-7 * want[i]) << i;
}

TEST_F(ScanTest, SumsUpInTheMiddleOfAGraph) {
  const Tensor x = Ramp({5, 6});
  // What follows a running sum, what it is made of, and running sums of running sums.
  EXPECT_THAT(Out((x * 2.0).CumSum(1).Sum({1})), ElementsAre(70, 322, 574, 826, 1078));
  EXPECT_THAT(Out(Ramp({2, 2}).CumSum(0).CumSum(1)), ElementsAre(0, 1, 2, 6));
  const Tensor y = Ramp({3}).CumSum();
  EXPECT_THAT(Out(y * y), ElementsAre(0, 1, 9));
  EXPECT_THAT(Out(Ramp({4}).CumSum().Flip({0})), ElementsAre(6, 3, 1, 0));
  EXPECT_THAT(Out(Ramp({1, 1}).CumSum(0)), ElementsAre(0));
}

// The index of what is summed has quotients of the position.
TEST_F(ScanTest, SumsUpRepeatedElements) {
  for (const int64_t times : {2, 8, 16}) {
    const Tensor x = Ramp({3}).Unsqueeze(1).Expand({3, times}).Reshape({3 * times}) + 1.0;
    const auto y = Out(x.CumSum());
    double sum = 0;
    for (int64_t i = 0; i < 3 * times; ++i) {
      sum += static_cast<double>(i / times + 1);
      ASSERT_EQ(y[static_cast<size_t>(i)], sum) << times << " " << i;
    }
  }
}

TEST_F(ScanTest, SumsUpSmallFloats) {
  // In f16, 2048 + 1 is 2048. The sum is kept in f32 and each result is rounded once.
  const auto y = Out(In({4}, {2048, 1, 1, 1}, Dtype::F16).CumSum());
  EXPECT_THAT(y, ElementsAre(2048, 2048, 2050, 2052));
}

TEST_F(ScanTest, SmallestAndSpread) {
  EXPECT_THAT(Out(In({2, 3}, {5, 1, 1, 7, 2, 7}).Argmin()), ElementsAre(1, 1));
  EXPECT_THAT(Out(In({3}, {1, NAN, 0}).Argmin()), ElementsAre(1));
  EXPECT_THAT(Out(In({3}, {-128, 127, -128}, Dtype::I8).Argmin()), ElementsAre(0));
  EXPECT_THAT(Out(In({3}, {255, 0, 0}, Dtype::U8).Argmin()), ElementsAre(1));
  EXPECT_FALSE(Ramp({0}).Argmin().status().ok());
  EXPECT_THAT(Out(In({2, 2}, {1, 3, 2, 6}).Std({1})),
              Pointwise(DoubleNear(1e-6), {std::sqrt(2.0), std::sqrt(8.0)}));
  const auto [var, mean] = In({2, 2}, {1, 3, 2, 6}, Dtype::F64).VarMean({1}, false, 0);
  EXPECT_THAT(Out(var), ElementsAre(1, 4));
  EXPECT_THAT(Out(mean), ElementsAre(2, 4));
  EXPECT_TRUE(std::isnan(Out(Ramp({1}).Var())[0]));  // 0 / 0
  EXPECT_EQ(Ramp({2, 3}).VarMean({0}, true).second.dims(), (Dims{1, 3}));
  // Squares of 300 are beyond f16, their mean is not asked for in f16.
  EXPECT_THAT(Out(In({2}, {-300, 300}, Dtype::F16).Std({}, false, 0)), ElementsAre(INFINITY));
  EXPECT_THAT(Out(In({2}, {-200, 200}, Dtype::F16).Var({}, false, 0)), ElementsAre(40000));
  CheckGradient({Input({2, 4})}, [](const std::vector<Tensor>& t) { return t[0].Std({1}); });
}

TEST_F(ScanTest, SignsAndClips) {
  const Tensor x = In({6}, {-2.5, -0.0, 0, 3, INFINITY, -INFINITY});
  EXPECT_THAT(Out(x.Sign()), ElementsAre(-1, 0, 0, 1, 1, -1));
  EXPECT_THAT(Out(x.Clip(-1, 2)), ElementsAre(-1, 0, 0, 2, 2, -1));
  EXPECT_TRUE(std::isnan(Out(In({1}, {NAN}).Sign())[0]));
  EXPECT_TRUE(std::isnan(Out(In({1}, {NAN}).Clip(0, 1))[0]));
  EXPECT_THAT(Out(In({2}, {NAN, 1}).IsNan()), ElementsAre(1, 0));
  EXPECT_THAT(Out(In({3}, {-7, 0, 7}, Dtype::I8).Sign()), ElementsAre(-1, 0, 1));
  EXPECT_THAT(Out(In({2}, {0, 200}, Dtype::U8).Sign()), ElementsAre(0, 1));
  EXPECT_THAT(Out(In({3}, {-7, 0, 7}, Dtype::I32).Clip(-2, 3)), ElementsAre(-2, 0, 3));
  CheckGradient({Input({7})}, [](const std::vector<Tensor>& t) { return t[0].Clip(-1, 0.5); });
  CheckGradient({Input({7})}, [](const std::vector<Tensor>& t) { return t[0].Sign() * t[0]; });
}

TEST_F(ScanTest, SigmoidHasAGradientEverywhere) {
  const std::vector<double> at = {-INFINITY, -1000, -100, -1, 0, 1, 100, 1000, INFINITY};
  std::vector<double> want, slope;
  for (double v : at) {
    const double s = 1 / (1 + std::exp(-v));
    want.push_back(s), slope.push_back(s * (1 - s));
  }
  for (const Dtype d : {Dtype::F32, Dtype::F64}) {
    const Tensor x = In({9}, at, d), y = x.Sigmoid();
    const auto g = Gradient(y.Sum(), std::span(&x, 1));
    ASSERT_TRUE(g.ok());
    EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-6), want));
    const auto got = Out((*g)[0]);
    for (size_t i = 1; i + 1 < at.size(); ++i) EXPECT_NEAR(got[i], slope[i], 1e-6) << at[i];
  }
  EXPECT_TRUE(std::isnan(Out(In({1}, {NAN}).Sigmoid())[0]));
  EXPECT_THAT(Out(In({2}, {0, 1}, Dtype::Bool).Sigmoid()),
              Pointwise(DoubleNear(1e-6), {0.5, 1 / (1 + std::exp(-1.0))}));
  for (auto f : {&Tensor::Sigmoid, &Tensor::Silu, &Tensor::Gelu, &Tensor::Tanh})
    CheckGradient({Input({6})},
                  [f](const std::vector<Tensor>& t) { return (t[0].*f)(Site::current()); });
}

TEST_F(ScanTest, CrossEntropyOfImpossibleClasses) {
  const Tensor x = In({1, 3}, {0, -INFINITY, 0}, Dtype::F64), label = In({1}, {2}, Dtype::I32);
  EXPECT_THAT(Out(x.CrossEntropy(label)), Pointwise(DoubleNear(1e-12), {std::log(2.0)}));
  CheckGradient({Input({3, 4})}, [&](const std::vector<Tensor>& t) {
    return t[0].CrossEntropy(In({3}, {2, 0, 3}, Dtype::I32));
  });
}

}  // namespace
}  // namespace uopd::client
