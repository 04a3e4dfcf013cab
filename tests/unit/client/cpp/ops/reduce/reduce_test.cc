// SPDX-License-Identifier: MIT
#include <cmath>

#include "tests/unit/client/cpp/fixture.h"
#include "uopd/movement.h"
#include "uopd/reductions.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class ReduceTest : public ClientTest {};

TEST_F(ReduceTest, ReducesAxes) {
  const Tensor x = Ramp({2, 3});
  EXPECT_THAT(Out(x.Sum({0})), ElementsAre(3, 5, 7));
  EXPECT_THAT(Out(x.Sum()), ElementsAre(15));
  EXPECT_EQ(x.Sum().rank(), 0);
  EXPECT_EQ(x.Mean({-1}, true).dims(), (Dims{2, 1}));
  EXPECT_THAT(Out(x.Mean({-1})), ElementsAre(1, 4));
  EXPECT_THAT(Out(x.Max({1})), ElementsAre(2, 5));
  EXPECT_THAT(Out(x.Min({1})), ElementsAre(0, 3));
  EXPECT_THAT(Out((x + 1.0).Prod({0})), ElementsAre(4, 10, 18));
  EXPECT_THAT(Out(x.Var({1})), ElementsAre(1, 1));
  EXPECT_THAT(Out(x.Var({1}, false, 0)), Pointwise(DoubleNear(1e-6), {2.0 / 3, 2.0 / 3}));
  EXPECT_FALSE(x.Sum({2}).status().ok());
  EXPECT_FALSE(x.Sum({1, -1}).status().ok());
}

TEST_F(ReduceTest, SumsOfSmallDtypesAreWide) {
  const Tensor b = In({300}, std::vector<double>(300, 1), Dtype::Bool);
  EXPECT_EQ(b.Sum().dtype(), Dtype::I32);
  EXPECT_THAT(Out(b.Sum()), ElementsAre(300));
  EXPECT_EQ(In({1}, {1}, Dtype::U8).Sum().dtype(), Dtype::U32);
  const Tensor h = In({4096}, std::vector<double>(4096, 1), Dtype::F16);
  EXPECT_EQ(h.Sum().dtype(), Dtype::F16);
  EXPECT_THAT(Out(h.Sum()), ElementsAre(4096));  // adding ones in f16 would stick at 2048
  EXPECT_THAT(Out((h * 100.0).Mean()), ElementsAre(100));
  EXPECT_THAT(Out(In({3}, {-128, 127, 5}, Dtype::I8).Min()), ElementsAre(-128));
}

TEST_F(ReduceTest, NothingReducesToTheIdentity) {
  EXPECT_THAT(Out(Ramp({0, 2}).Sum({0})), ElementsAre(0, 0));
  EXPECT_THAT(Out(Ramp({0, 2}).Prod({0})), ElementsAre(1, 1));
  EXPECT_THAT(Out(Ramp({0}).Max()), ElementsAre(-INFINITY));
  EXPECT_THAT(Out(Ramp({2, 0}).Sum({0})), IsEmpty());
}

TEST_F(ReduceTest, ATensorWithoutAxesHasOneElementAlongThem) {
  const Tensor x = In({}, {3});
  for (const int64_t a : {0, -1}) {
    for (const Tensor& y :
         {x.Sum({a}), x.Mean({a}, true), x.Max({a}), x.Min({a}), x.Prod({a}), x.CumSum(a),
          x.Sort(a).first, x.TopK(1, a).first, x.Flip({a}), fn::CumProd(x, a),
          fn::CumMax(x, a).first, fn::CumMin(x, a).first, fn::LogSumExp(x, {a}),
          fn::LogCumSumExp(x, a), fn::Quantile(x, 0.3, a, true), fn::Roll(x, {1}, {a})}) {
      ASSERT_TRUE(y.status().ok()) << y.status();
      EXPECT_EQ(y.rank(), 0);
      EXPECT_THAT(Out(y), ElementsAre(3));
    }
    for (const Tensor& y : {x.Argmax(a), x.Argmin(a, true), x.Sort(a, true).second,
                            x.Var({a}, false, 0), x.LogSoftmax(a), x.Softmax(a) - 1.0}) {
      EXPECT_EQ(y.rank(), 0);
      EXPECT_THAT(Out(y), ElementsAre(0));
    }
  }
  EXPECT_THAT(Out(fn::RepeatInterleave(x, 2, 0)), ElementsAre(3, 3));
  for (const int64_t a : {1, -2}) {
    EXPECT_FALSE(x.Sum({a}).status().ok());
    EXPECT_FALSE(x.Argmax(a).status().ok());
    EXPECT_FALSE(x.CumSum(a).status().ok());
    EXPECT_FALSE(fn::CumProd(x, a).status().ok());
    EXPECT_FALSE(x.Flip({a}).status().ok());
  }
  EXPECT_FALSE(x.Sum({0, -1}).status().ok());
  EXPECT_FALSE(x.TopK(2, 0).first.status().ok());
  EXPECT_FALSE(fn::CumProd(Tensor(), 0).status().ok());
  EXPECT_FALSE(fn::CumMax(x.Reshape({2}), 0).first.status().ok());
}

TEST_F(ReduceTest, ArgmaxTakesTheFirst) {
  EXPECT_THAT(Out(In({2, 3}, {1, 5, 5, 7, 2, 7}).Argmax()), ElementsAre(1, 0));
  EXPECT_THAT(Out(In({2, 3}, {1, 5, 5, 7, 2, 7}).Argmax(0)), ElementsAre(1, 0, 1));
  EXPECT_THAT(Out(In({3}, {1, NAN, 9}).Argmax()), ElementsAre(1));
  EXPECT_THAT(Out(In({3}, {-INFINITY, -INFINITY, -INFINITY}).Argmax()), ElementsAre(0));
  EXPECT_FALSE(Ramp({0}).Argmax().status().ok());
}

TEST_F(ReduceTest, MatMulAgainstLoops) {
  struct Case {
    Dims a, b, out;
  };
  const Case cases[] = {{{3, 5}, {5, 2}, {3, 2}},
                        {{5}, {5}, {}},
                        {{5}, {5, 2}, {2}},
                        {{3, 5}, {5}, {3}},
                        {{2, 1, 3, 5}, {4, 5, 2}, {2, 4, 3, 2}},
                        {{1, 7}, {7, 1}, {1, 1}},
                        {{2, 5}, {3, 5, 2}, {3, 2, 2}},
                        {{2, 3, 5}, {5}, {2, 3}},
                        {{0, 5}, {5, 2}, {0, 2}},
                        {{2, 0}, {0, 2}, {2, 2}}};
  for (const Case& c : cases) {
    const Tensor a = Ramp(c.a, 0.5, -3, Dtype::F64), b = Ramp(c.b, 0.25, 1, Dtype::F64);
    const Tensor y = a.MatMul(b);
    ASSERT_TRUE(y.status().ok()) << y.status();
    EXPECT_EQ(y.dims(), c.out);
    // Every output element by its own loop over k, from the definition of numpy.matmul.
    Dims full_a = c.a, full_b = c.b, batch;
    if (full_a.size() == 1) full_a.insert(full_a.begin(), 1);
    if (full_b.size() == 1) full_b.push_back(1);
    const int64_t n = full_a[full_a.size() - 2], k = full_a.back(), m = full_b.back();
    const size_t rank = std::max(full_a.size(), full_b.size()) - 2;
    auto dim = [&](const Dims& d, size_t i) -> int64_t {
      const size_t have = d.size() - 2;
      return i + have < rank ? 1 : d[i + have - rank];
    };
    int64_t batches = 1;
    for (size_t i = 0; i < rank; ++i)
      batch.push_back(std::max(dim(full_a, i), dim(full_b, i))), batches *= batch.back();
    std::vector<double> want;
    for (int64_t q = 0; q < batches; ++q) {
      int64_t at_a = 0, at_b = 0, rest = q, size = batches;
      for (size_t i = 0; i < rank; ++i) {
        size /= batch[i];
        const int64_t j = rest / size;
        rest %= size;
        at_a = at_a * dim(full_a, i) + (dim(full_a, i) == 1 ? 0 : j),
        at_b = at_b * dim(full_b, i) + (dim(full_b, i) == 1 ? 0 : j);
      }
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t s = 0; s < m; ++s) {
          double sum = 0;
          for (int64_t t = 0; t < k; ++t) {
            sum += (-3 + 0.5 * static_cast<double>((at_a * n + r) * k + t)) *
                   (1 + 0.25 * static_cast<double>((at_b * k + t) * m + s));
          }
          want.push_back(sum);
        }
      }
    }
    EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-9), want))
        << "rank " << c.a.size() << " by " << c.b.size();
  }
}

TEST_F(ReduceTest, MatMulSaysWhatDoesNotFit) {
  EXPECT_THAT(StatusText(Ramp({3, 5}).MatMul(Ramp({4, 2})).status()),
              HasSubstr("MatMul: shapes (3, 5) and (4, 2)"));
  EXPECT_FALSE(Ramp({3, 5}).MatMul(2).status().ok());
  EXPECT_FALSE(Ramp({}).MatMul(Ramp({1})).status().ok());
  EXPECT_FALSE(Ramp({2, 3, 5}).MatMul(Ramp({3, 5, 2})).status().ok());
}

TEST_F(ReduceTest, SoftmaxAndCrossEntropyAgainstLoops) {
  const std::vector<double> v = {1000, 1001, 999, -2, 0.5, 0.25};
  const std::vector<double> labels = {0, 2};
  std::vector<double> soft, log_soft;
  double loss = 0;
  for (int r = 0; r < 2; ++r) {
    double top = -INFINITY, sum = 0;
    for (int c = 0; c < 3; ++c) top = std::max(top, v[r * 3 + c]);
    for (int c = 0; c < 3; ++c) sum += std::exp(v[r * 3 + c] - top);
    for (int c = 0; c < 3; ++c) {
      soft.push_back(std::exp(v[r * 3 + c] - top) / sum);
      log_soft.push_back(v[r * 3 + c] - top - std::log(sum));
    }
    loss -= log_soft[static_cast<size_t>(r * 3) + static_cast<size_t>(labels[r])] / 2;
  }
  const Tensor x = In({2, 3}, v, Dtype::F64);
  EXPECT_THAT(Out(x.Softmax()), Pointwise(DoubleNear(1e-12), soft));
  EXPECT_THAT(Out(x.LogSoftmax()), Pointwise(DoubleNear(1e-12), log_soft));
  EXPECT_THAT(Out(x.CrossEntropy(In({2}, labels, Dtype::U8))),
              Pointwise(DoubleNear(1e-12), {loss}));
  EXPECT_FALSE(x.CrossEntropy(In({3}, {0, 1, 2}, Dtype::U8)).status().ok());
  EXPECT_FALSE(x.CrossEntropy(Ramp({2})).status().ok());
}

}  // namespace
}  // namespace uopd::client
