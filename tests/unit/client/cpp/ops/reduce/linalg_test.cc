// SPDX-License-Identifier: MIT
// Factorisations by what they must satisfy, norms and solutions against loops.
#include <limits>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/einsum.h"
#include "uopd/functional.h"
#include "uopd/linalg.h"

namespace uopd::client::linalg_cases {
namespace {

using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();

class LinalgTest : public OpCases {
 protected:
  static double Largest(const Tensor& t) {
    double out = 0;
    for (double v : Out(t)) out = std::isnan(v) ? kInf : std::max(out, std::abs(v));
    return out;
  }
  Tensor Eye(int64_t n, Dtype d = Dtype::F64) { return client_.Eye(n, d); }
};

TEST_F(LinalgTest, Norms) {
  const auto x = Scattered(6);
  const Tensor t = In({2, 3}, x, Dtype::F64);
  for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, -1.0, kInf, -kInf}) {
    std::vector<double> want;
    for (size_t r = 0; r < 2; ++r) {
      double sum = 0, most = 0, least = kInf;
      for (size_t i = 3 * r; i < 3 * r + 3; ++i) {
        sum += p == 0 ? 1 : std::pow(std::abs(x[i]), p);
        most = std::max(most, std::abs(x[i])), least = std::min(least, std::abs(x[i]));
      }
      want.push_back(p == kInf ? most : p == -kInf ? least : p == 0 ? sum : std::pow(sum, 1 / p));
    }
    ExpectNear(Out(fn::Norm(t, p, {1})), want, Dtype::F64, 16, "norm");
    if (p != 0)
      CheckGradient({{{2, 3}, x}},
                    [&](const std::vector<Tensor>& v) { return fn::Norm(v[0], p, {1}); });
  }
  EXPECT_THAT(Out(fn::Norm(In({2}, {-300, 400}, Dtype::F16))), ElementsAre(500));
  EXPECT_EQ(fn::Norm(t, 2, {0}, true).dims(), (Dims{1, 3}));
  EXPECT_FALSE(fn::Norm(t, 2, {2}).status().ok());
  const Tensor zero = In({2}, {0, 0}, Dtype::F64);
  const auto g = Gradient(fn::Norm(zero), std::span(&zero, 1));
  ASSERT_TRUE(g.ok());
  EXPECT_THAT(Out((*g)[0]), ElementsAre(0, 0));
  EXPECT_THAT(Out(fn::Normalize(In({2, 2}, {3, 4, 0, 0}))), ElementsAre(0.6f, 0.8f, 0, 0));
  auto f = [](const std::vector<Tensor>& v) { return fn::Normalize(v[0]); };
  CheckGradient({{{2, 3}, x}}, f);
  CheckSecondGradient({{{2, 3}, x}}, f);
}

// (1 + 2^-7)^2 - (1 + 2^-6) is 2^-14. A product that is rounded to bf16 leaves 0.
TEST_F(LinalgTest, ProductsOfSmallFloatsAreRoundedOnce) {
  const double e = 0x1p-7;
  const Tensor a = In({1, 2}, {1 + e, 1}, Dtype::BF16),
               b = In({2, 1}, {1 + e, -(1 + 2 * e)}, Dtype::BF16);
  EXPECT_EQ(a.MatMul(b).dtype(), Dtype::BF16);
  EXPECT_THAT(Out(a.MatMul(b)), ElementsAre(0x1p-14));
  EXPECT_THAT(Out(fn::Conv(a.Reshape({1, 2, 1}), b.Reshape({1, 2, 1}))), ElementsAre(0x1p-14));
  EXPECT_THAT(Out(fn::Einsum("ij,jk->ik", std::vector{a, b})), ElementsAre(0x1p-14));
  // f16 products that f16 does not hold.
  const Tensor large = In({1, 2}, {300, 300}, Dtype::F16);
  EXPECT_THAT(Out(large.MatMul(In({2, 1}, {300, -299}, Dtype::F16))), ElementsAre(300));
  // Scores that bf16 rounds to one number.
  const Tensor q = In({1, 1, 2}, {16, 1}, Dtype::BF16),
               k = In({1, 2, 2}, {16, 0, 16, 1}, Dtype::BF16),
               v = In({1, 2, 1}, {0, 1}, Dtype::BF16);
  EXPECT_GT(Out(fn::Attention(q, k, v, {}, {.scale = 1.0}))[0], 0.7);
}

TEST_F(LinalgTest, TracesAndPowers) {
  EXPECT_THAT(Out(fn::Trace(Ramp({2, 2, 3}))), ElementsAre(4, 16));
  EXPECT_THAT(Out(fn::Trace(Ramp({2, 3}), 1)), ElementsAre(6));
  const Tensor a = In({2, 2}, {1, 1, 1, 0}, Dtype::F64);
  EXPECT_THAT(Out(fn::MatrixPower(a, 10)), ElementsAre(89, 55, 55, 34));
  EXPECT_THAT(Out(fn::MatrixPower(a, 0)), ElementsAre(1, 0, 0, 1));
  EXPECT_LT(Largest(fn::MatrixPower(a, -3).MatMul(fn::MatrixPower(a, 3)) - Eye(2)), 1e-12);
  EXPECT_FALSE(fn::MatrixPower(Ramp({2, 3}), 2).status().ok());
  EXPECT_FALSE(fn::Trace(Ramp({3})).status().ok());
}

TEST_F(LinalgTest, OrthogonalTriangular) {
  for (const Dims& dims :
       {Dims{3, 3}, Dims{5, 2}, Dims{2, 4}, Dims{2, 3, 2}, Dims{1, 1}, Dims{3, 0}}) {
    for (const Dtype d : {Dtype::F64, Dtype::F32}) {
      for (const bool reduced : {true, false}) {
        const Tensor x = Some(dims, 4, d);
        const auto [q, r] = fn::Qr(x, reduced);
        ASSERT_TRUE(q.status().ok()) << q.status();
        const double tolerance = 32 * Epsilon(d);
        EXPECT_EQ(q.dtype(), d);
        EXPECT_LT(Largest(q.MatMul(r) - x), tolerance);
        EXPECT_LT(Largest(q.Transpose().MatMul(q) - Eye(q.dims().back(), d)), tolerance);
        EXPECT_EQ(Largest(r.Tril(-1)), 0);
        const int64_t m = dims[dims.size() - 2], n = dims.back();
        EXPECT_EQ(q.dims().back(), reduced ? std::min(m, n) : m);
        EXPECT_EQ(r.dims().back(), n);
      }
    }
  }
  // Columns of zeros, and such that depend on each other.
  const Tensor poor = In({3, 3}, {0, 1, 2, 0, 1, 2, 0, 1, 2}, Dtype::F64);
  const auto [q, r] = fn::Qr(poor);
  EXPECT_LT(Largest(q.MatMul(r) - poor), 1e-14);
  EXPECT_LT(Largest(q.Transpose().MatMul(q) - Eye(3)), 1e-14);
  EXPECT_FALSE(fn::Qr(Ramp({3})).first.status().ok());
  CheckGradient({Input({3, 2})}, [](const std::vector<Tensor>& t) { return fn::Qr(t[0]).first; });
  CheckGradient({Input({2, 3})}, [](const std::vector<Tensor>& t) { return fn::Qr(t[0]).second; });
}

TEST_F(LinalgTest, SolvesSystems) {
  for (const int64_t n : {1, 2, 5}) {
    const Tensor a = Some({n, n}, 1) + Eye(n) * 4.0, b = Some({2, n, 3}, 2);
    for (const bool upper : {true, false}) {
      const Tensor t = upper ? a.Triu() : a.Tril();
      EXPECT_LT(Largest(t.MatMul(fn::SolveTriangular(a, b, upper)) - b), 1e-13);
    }
    EXPECT_LT(Largest(a.MatMul(fn::Solve(a, b)) - b), 1e-13);
    EXPECT_LT(Largest(a.MatMul(fn::Inverse(a)) - Eye(n)), 1e-13);
  }
  EXPECT_EQ(fn::Inverse(Some({3, 2, 2}, 1)).dims(), (Dims{3, 2, 2}));
  EXPECT_FALSE(fn::Solve(Ramp({2, 2}), Ramp({3, 1})).status().ok());
  EXPECT_FALSE(fn::Solve(Ramp({2, 2}), Ramp({2})).status().ok());
  EXPECT_FALSE(fn::Inverse(Ramp({2, 3})).status().ok());
  // Singular: not finite, or as large as rounding leaves it.
  EXPECT_FALSE(std::abs(Out(fn::Inverse(In({2, 2}, {1, 1, 1, 1})))[0]) < 1e5);
  EXPECT_FALSE(std::isfinite(Out(fn::Inverse(In({2, 2}, {0, 0, 0, 0})))[0]));
  auto f = [&](const std::vector<Tensor>& t) { return fn::Solve(t[0] + Eye(2) * 4.0, t[1]); };
  CheckGradient({Input({2, 2}, 1), Input({2, 1}, 2)}, f);
  CheckSecondGradient({Input({2, 2}, 1), Input({2, 1}, 2)}, f);
}

TEST_F(LinalgTest, SingularValues) {
  daemon_->check_schedule = false;  // thousands of nodes
  auto check = [&](const Tensor& x, bool full) {
    const auto [u, s, vt] = fn::Svd(x, full);
    ASSERT_TRUE(u.status().ok()) << u.status();
    ASSERT_TRUE(Realize({u, s, vt}).ok());
    const int64_t m = x.dims()[x.dims().size() - 2], n = x.dims().back(), k = std::min(m, n);
    EXPECT_EQ(u.dims().back(), full ? m : k);
    EXPECT_EQ(vt.dims()[vt.dims().size() - 2], full ? n : k);
    const double tolerance = 64 * Epsilon(x.dtype());
    const Tensor product = (u.Narrow(-1, 0, k) * s.Unsqueeze(-2)).MatMul(vt.Narrow(-2, 0, k));
    EXPECT_LT(Largest(product - x), tolerance * std::max(1.0, Largest(x)));
    EXPECT_LT(Largest(u.Transpose().MatMul(u) - Eye(u.dims().back(), x.dtype())), tolerance);
    EXPECT_LT(Largest(vt.MatMul(vt.Transpose()) - Eye(vt.dims()[vt.dims().size() - 2], x.dtype())),
              tolerance);
    const auto values = Out(s);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_GE(values[i], 0);
      if (i % static_cast<size_t>(k) != 0) {
        EXPECT_LE(values[i], values[i - 1]);
      }
    }
  };
  for (const Dims& dims :
       {Dims{1, 1}, Dims{4, 4}, Dims{5, 3}, Dims{2, 5}, Dims{2, 3, 3}, Dims{7, 6}}) {
    check(Some(dims, 2), false);
    check(Some(dims, 3, Dtype::F32), true);
  }
  check(Some({12, 11}, 5), false);
  // Ranks below the size, with and without the column of padding; scales at the ends of the range.
  check(In({3, 3}, {1, 2, 3, 2, 4, 6, 1, 2, 3}, Dtype::F64), false);
  check(In({4, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, Dtype::F64), true);
  check(Some({4, 3}, 7, Dtype::F32) * 1e25, false);
  check(Some({4, 4}, 7, Dtype::F32) * 1e-25, false);
  EXPECT_THAT(Out(std::get<1>(fn::Svd(In({2, 2}, {3, 0, 0, -4}, Dtype::F64)))), ElementsAre(4, 3));
  EXPECT_FALSE(std::get<0>(fn::Svd(Ramp({3}))).status().ok());
  EXPECT_FALSE(std::get<0>(fn::Svd(Ramp({0, 3}))).status().ok());
}

TEST_F(LinalgTest, GradientsOfSingularValuesAndVectors) {
  for (const Dims& dims : {Dims{1, 1}, Dims{3, 3}, Dims{4, 2}, Dims{2, 5}, Dims{2, 3, 2}}) {
    const int64_t k = std::min(dims[dims.size() - 2], dims.back());
    for (const bool full : {false, true}) {
      const auto x = Out(Some(dims, 5));
      auto of = [&](auto loss) {
        CheckGradient({{dims, x}}, [&](const std::vector<Tensor>& in) {
          const auto [u, s, vt] = fn::Svd(in[0], full);
          return loss(u.Narrow(-1, 0, k), s, vt.Narrow(-2, 0, k));
        });
      };
      auto weighted = [&](const Tensor& t) {
        return t * (client_.Arange(0, t.size(), 1, Dtype::F64) + 1.0).Sin().Reshape(t.dims());
      };
      of([&](const Tensor&, const Tensor& s, const Tensor&) { return weighted(s); });
      of([&](const Tensor& u, const Tensor&, const Tensor&) { return weighted(u); });
      of([&](const Tensor&, const Tensor&, const Tensor& vt) { return weighted(vt); });
      of([&](const Tensor& u, const Tensor& s, const Tensor& vt) {
        return weighted((u * s.Unsqueeze(-2).Sqrt()).MatMul(vt));
      });
    }
  }
  // The gradient of a gradient of Svd is not known: Gradient refuses it.
  const Tensor x = Some({3, 2}, 5);
  const auto first = Gradient(std::get<1>(fn::Svd(x)).Square().Sum(), std::span(&x, 1));
  ASSERT_TRUE(first.ok());
  const auto second = Gradient((*first)[0].Square().Sum(), std::span(&x, 1));
  EXPECT_TRUE(absl::IsUnimplemented(second.status())) << second.status();
}

TEST_F(LinalgTest, EqualSingularValues) {
  // c0 = 1.5, c1 = -0.5 converges to the orthogonal factor.
  const double cubic[] = {1.5, -0.5};
  for (const Dims& dims : {Dims{3, 3}, Dims{4, 2}, Dims{2, 3}}) {
    const Tensor x = Some(dims, 5);
    const Tensor y = fn::NewtonSchulz(x, 40, cubic);
    const bool tall = dims[0] > dims[1];
    const Tensor square = tall ? y.Transpose().MatMul(y) : y.MatMul(y.Transpose());
    EXPECT_LT(Largest(square - Eye(std::min(dims[0], dims[1]))), 1e-10);
    const auto values = Out(std::get<1>(fn::Svd(fn::NewtonSchulz(x))));
    for (double v : values) EXPECT_TRUE(v > 0.3 && v < 1.3) << v;
  }
  EXPECT_EQ(fn::NewtonSchulz(In({2, 2}, {1, 0, 0, 1}, Dtype::BF16)).dtype(), Dtype::BF16);
  EXPECT_FALSE(fn::NewtonSchulz(Ramp({3})).status().ok());
}

TEST_F(LinalgTest, CholeskyFactors) {
  for (const Dims& dims : {Dims{1, 1}, Dims{4, 4}, Dims{2, 3, 3}, Dims{0, 0}}) {
    for (const Dtype d : {Dtype::F64, Dtype::F32}) {
      const Tensor a = Some(dims, 3, d);
      const Tensor x = a.MatMul(a.Transpose()) + Eye(dims.back(), d);
      const Tensor l = fn::Cholesky(x);
      ASSERT_TRUE(l.status().ok()) << l.status();
      EXPECT_LT(Largest(l.MatMul(l.Transpose()) - x), 64 * Epsilon(d));
      EXPECT_EQ(Largest(l.Triu(1)), 0);
      EXPECT_EQ(l.dtype(), d);
    }
  }
  EXPECT_THAT(Out(fn::Cholesky(In({2, 2}, {4, 77, 2, 5}, Dtype::F64))), ElementsAre(2, 0, 1, 2));
  EXPECT_TRUE(std::isnan(Out(fn::Cholesky(In({2, 2}, {1, 2, 2, 1})))[3]));
  EXPECT_FALSE(fn::Cholesky(Ramp({2, 3})).status().ok());
  auto f = [&](const std::vector<Tensor>& t) {
    return fn::Cholesky(t[0].MatMul(t[0].Transpose()) + Eye(3));
  };
  CheckGradient({Input({3, 3})}, f);
  CheckSecondGradient({Input({3, 3})}, f);
}

TEST_F(LinalgTest, Determinants) {
  EXPECT_THAT(Out(fn::Det(In({2, 2}, {1, 2, 3, 4}, Dtype::F64))), ElementsAre(-2));
  EXPECT_THAT(Out(fn::Det(In({3, 3}, {0, 2, 0, 0, 0, 3, 4, 0, 0}))), ElementsAre(24));
  EXPECT_THAT(Out(fn::Det(In({2, 2}, {1, 2, 2, 4}))), ElementsAre(0));
  EXPECT_THAT(Out(fn::Det(In({3, 3}, {0, 0, 1, 0, 0, 2, 3, 4, 5}))), ElementsAre(0));
  EXPECT_THAT(Out(fn::Det(In({0, 0}, {}))), ElementsAre(1));
  EXPECT_EQ(fn::Det(Ramp({2, 3, 3})).dims(), Dims{2});
  EXPECT_FALSE(fn::Det(Ramp({2, 3})).status().ok());
  // The product rule, for matrices whose rows have to change places.
  const Tensor a = Some({2, 5, 5}, 1), b = Some({2, 5, 5}, 2);
  EXPECT_LT(Largest(fn::Det(a.MatMul(b)) / (fn::Det(a) * fn::Det(b)) - 1.0), 1e-12);
  auto f = [](const std::vector<Tensor>& t) { return fn::Det(t[0]); };
  CheckGradient({Input({3, 3})}, f);
  CheckSecondGradient({Input({3, 3})}, f);
}

}  // namespace
}  // namespace uopd::client::linalg_cases
