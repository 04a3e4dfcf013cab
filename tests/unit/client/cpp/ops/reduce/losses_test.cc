// SPDX-License-Identifier: MIT
// Losses against loops in double.
#include <limits>
#include <numbers>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/losses.h"

namespace uopd::client::loss_cases {
namespace {

using fn::Reduction;
using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();

class LossTest : public OpCases {
 protected:
  static double Combine(const std::vector<double>& v, Reduction r, double rows) {
    double sum = 0;
    for (double x : v) sum += x;
    return r == Reduction::kSum
               ? sum
               : sum / (r == Reduction::kMean ? static_cast<double>(v.size()) : rows);
  }
};

struct Pairwise {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&, Reduction)> f;
  double (*want)(double x, double t);
  int domain = 0;  // 0: any; 1: probabilities; 2: targets are probabilities; 3: targets are -1 or 1
};

double Soft(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

const std::vector<Pairwise>& Cases() {
  using T = const Tensor&;
  using R = Reduction;
  static const auto* const cases = new std::vector<Pairwise>{
      {"mse", [](T a, T b, R r) { return fn::MseLoss(a, b, r); },
       [](double x, double t) { return (x - t) * (x - t); }},
      {"l1", [](T a, T b, R r) { return fn::L1Loss(a, b, r); },
       [](double x, double t) { return std::abs(x - t); }},
      {"smooth_l1", [](T a, T b, R r) { return fn::SmoothL1Loss(a, b, 0.5, r); },
       [](double x, double t) {
         const double d = std::abs(x - t);
         return d < 0.5 ? d * d : d - 0.25;
       }},
      {"smooth_l1_zero", [](T a, T b, R r) { return fn::SmoothL1Loss(a, b, 0, r); },
       [](double x, double t) { return std::abs(x - t); }},
      {"huber", [](T a, T b, R r) { return fn::HuberLoss(a, b, 0.7, r); },
       [](double x, double t) {
         const double d = std::abs(x - t);
         return d < 0.7 ? 0.5 * d * d : 0.7 * (d - 0.35);
       }},
      {"bce", [](T a, T b, R r) { return fn::BinaryCrossEntropy(a, b, {}, r); },
       [](double x, double t) { return -(t * std::log(x) + (1 - t) * std::log(1 - x)); }, 1},
      {"bce_logits",
       [](T a, T b, R r) { return fn::BinaryCrossEntropyWithLogits(a, b, {}, {}, r); },
       [](double x, double t) { return (1 - t) * x + Soft(-x); }, 2},
      {"kl_div", [](T a, T b, R r) { return fn::KlDiv(a, b, r); },
       [](double x, double t) { return t == 0 ? 0 : t * (std::log(t) - x); }, 2},
      {"kl_div_log", [](T a, T b, R r) { return fn::KlDiv(a, b, r, true); },
       [](double x, double t) { return std::exp(t) * (t - x); }},
      {"hinge_embedding", [](T a, T b, R r) { return fn::HingeEmbeddingLoss(a, b, 1, r); },
       [](double x, double t) { return t == 1 ? x : std::max(0.0, 1 - x); }, 3},
      {"hinge", [](T a, T b, R r) { return fn::HingeLoss(a, b, r); },
       [](double x, double t) { return std::max(0.0, 1 - x * t); }, 3},
  };
  return *cases;
}

TEST_F(LossTest, NegativeLogLikelihoods) {
  const auto x = Scattered(6, 1), s = Scattered(6, 2);
  std::vector<double> counts, poisson, plain, full, variance, gauss;
  for (size_t i = 0; i < 6; ++i) {
    counts.push_back(static_cast<double>(i));
    poisson.push_back(std::exp(x[i]) - counts[i] * x[i]);
    const double rate = x[i] + 2.5;
    plain.push_back(rate - counts[i] * std::log(rate + 1e-8));
    const double k = counts[i];
    full.push_back(poisson[i] +
                   (k > 1 ? k * std::log(k) - k + 0.5 * std::log(2 * std::numbers::pi * k) : 0));
    variance.push_back(i == 0 ? 0 : s[i] + 2.5);
    const double v = std::max(variance[i], 0.01), d = x[i] - counts[i];
    gauss.push_back(0.5 * (std::log(v) + d * d / v + std::log(2 * std::numbers::pi)));
  }
  const Tensor t = In({2, 3}, x, Dtype::F64), c = In({2, 3}, counts, Dtype::F64),
               v = In({2, 3}, variance, Dtype::F64);
  constexpr auto kNone = Reduction::kNone;
  ExpectNear(Out(fn::PoissonNllLoss(t, c, true, false, 1e-8, kNone)), poisson, Dtype::F64, 60,
             "poisson");
  ExpectNear(Out(fn::PoissonNllLoss(t + 2.5, c, false, false, 1e-8, kNone)), plain, Dtype::F64, 60,
             "poisson of rates");
  ExpectNear(Out(fn::PoissonNllLoss(t, c, true, true, 1e-8, kNone)), full, Dtype::F64, 200,
             "full poisson");
  ExpectNear(Out(fn::GaussianNllLoss(t, c, v, true, 0.01, kNone)), gauss, Dtype::F64, 60, "gauss");
  CheckGradient({Input({2, 3}, 1)}, [&](const std::vector<Tensor>& in) {
    return fn::PoissonNllLoss(in[0], c, true, true).Reshape({1});
  });
  CheckGradient({Input({2, 3}, 1), Input({2, 3}, 2)}, [&](const std::vector<Tensor>& in) {
    return fn::GaussianNllLoss(in[0], c, in[1] + 2.5, false).Reshape({1});
  });
  const auto g = Gradient(fn::GaussianNllLoss(t, c, v, false, 0.01), std::span(&v, 1));
  ASSERT_TRUE(g.ok());
  for (double d : Out((*g)[0])) EXPECT_TRUE(std::isfinite(d));
  EXPECT_EQ(fn::PoissonNllLoss(In({2}, {1, 2}, Dtype::F16), In({2}, {1, 2}, Dtype::F16)).dtype(),
            Dtype::F16);
}

TEST_F(LossTest, MarginsAndTriplets) {
  constexpr auto kNone = Reduction::kNone;
  const auto a = Scattered(12, 1), b = Scattered(12, 2), c = Scattered(12, 3);
  std::vector<double> ranks, signs, triplets;
  for (size_t i = 0; i < 12; ++i) {
    signs.push_back(i % 2 == 0 ? 1 : -1);
    ranks.push_back(std::max(0.0, 0.5 - signs[i] * (a[i] - b[i])));
  }
  for (size_t r = 0; r < 3; ++r) {
    double near = 0, far = 0;
    for (size_t i = 4 * r; i < 4 * r + 4; ++i) {
      near += std::pow(std::abs(a[i] - b[i] + 1e-6), 3),
          far += std::pow(std::abs(a[i] - c[i] + 1e-6), 3);
    }
    triplets.push_back(std::max(0.0, std::cbrt(near) - std::cbrt(far) + 0.7));
  }
  const Tensor x = In({3, 4}, a, Dtype::F64), y = In({3, 4}, b, Dtype::F64),
               z = In({3, 4}, c, Dtype::F64);
  ExpectNear(Out(fn::MarginRankingLoss(x, y, In({3, 4}, signs, Dtype::F64), 0.5, kNone)), ranks,
             Dtype::F64, 16, "ranks");
  ExpectNear(Out(fn::TripletMarginLoss(x, y, z, 0.7, 3, 1e-6, kNone)), triplets, Dtype::F64, 60,
             "triplets");
  CheckGradient({Input({3, 4}, 1), Input({3, 4}, 2), Input({3, 4}, 3)},
                [](const std::vector<Tensor>& t) {
                  return fn::TripletMarginLoss(t[0], t[1], t[2], 3, 2, 1e-6, kNone);
                });
  EXPECT_EQ(fn::TripletMarginLoss(x, y, z).dims(), Dims{});
  EXPECT_FALSE(fn::TripletMarginLoss(Ramp({}), Ramp({}), Ramp({})).status().ok());
  EXPECT_FALSE(fn::MarginRankingLoss(x, y, Ramp({3})).status().ok());
}

TEST_F(LossTest, Pairs) {
  for (const Pairwise& c : Cases()) {
    for (const Dtype d : {Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16}) {
      for (const Dims& dims : {Dims{}, Dims{5}, Dims{3, 1, 4}}) {
        const auto n = static_cast<size_t>(ir::Product(dims));
        auto x = Scattered(n, 1), t = Scattered(n, 2);
        for (size_t i = 0; i < n; ++i) {
          if (c.domain == 1) x[i] = (x[i] + 2.1) / 4.2;
          if (c.domain == 1 || c.domain == 2) t[i] = (t[i] + 2) / 4;
          if (c.domain == 2 && i == 1) t[i] = 0;
          if (c.domain == 3) t[i] = t[i] < 0 ? -1 : 1;
        }
        const Tensor a = In(dims, x, d), b = In(dims, t, d);
        const auto left = Out(a), right = Out(b);
        std::vector<double> each;
        for (size_t i = 0; i < n; ++i) each.push_back(c.want(left[i], right[i]));
        const double ulps = ir::Bits(d) < 32 ? 0.6 : 60;
        ExpectNear(Out(c.f(a, b, Reduction::kNone)), each, d, ulps, c.name);
        for (const auto r : {Reduction::kMean, Reduction::kSum, Reduction::kBatchMean}) {
          const Tensor y = c.f(a, b, r);
          EXPECT_EQ(y.dims(), Dims{});
          EXPECT_EQ(y.dtype(), d);
          const double rows = dims.empty() ? 1 : static_cast<double>(dims[0]);
          ExpectNear(Out(y), {Combine(each, r, rows)}, d, ulps, c.name);
        }
        if (d == Dtype::F64 && dims.size() == 1) {
          auto f = [&](const std::vector<Tensor>& v) {
            return c.f(v[0], c.domain == 3 ? b : v[1], Reduction::kMean);
          };
          for (double& v : t) v = c.domain != 3 && v == 0 ? 0.4 : v;
          CheckGradient({{dims, x}, {dims, t}}, f);
          CheckSecondGradient({{dims, x}, {dims, t}},
                              [&](const std::vector<Tensor>& v) { return f(v).Square(); });
        }
      }
    }
    EXPECT_FALSE(c.f(Ramp({2}), Ramp({3}), Reduction::kMean).status().ok()) << c.name;
  }
}

TEST_F(LossTest, WeightsOfBinaryLosses) {
  const Tensor x = In({3}, {0.2, 0, 1}, Dtype::F64), t = In({3}, {1, 0, 0}, Dtype::F64),
               w = In({3}, {2, 1, 0.5}, Dtype::F64);
  EXPECT_THAT(Out(fn::BinaryCrossEntropy(x, t, w, Reduction::kNone)),
              ElementsAre(::testing::DoubleNear(-2 * std::log(0.2), 1e-12), 0, 50));
  // At 0 and 1 the gradient is finite.
  const auto g = Gradient(fn::BinaryCrossEntropy(x, t), std::span(&x, 1));
  ASSERT_TRUE(g.ok());
  for (double v : Out((*g)[0])) EXPECT_TRUE(std::isfinite(v)) << v;
  const Tensor z = In({3}, {-1000, 2, 1000}, Dtype::F64), p = In({1}, {3}, Dtype::F64),
               y = In({3}, {1, 1, 1}, Dtype::F64);
  EXPECT_THAT(Out(fn::BinaryCrossEntropyWithLogits(z, y, w, p, Reduction::kNone)),
              ElementsAre(6000, ::testing::DoubleNear(3 * Soft(-2), 1e-12), 0));
}

TEST_F(LossTest, Classes) {
  constexpr int64_t kClasses = 4;
  for (const Dims& dims : {Dims{kClasses}, Dims{3, kClasses}, Dims{2, kClasses, 3}}) {
    Dims rows = dims;
    const size_t axis = dims.size() == 1 ? 0 : 1;
    rows.erase(rows.begin() + static_cast<int64_t>(axis));
    const auto n = static_cast<size_t>(ir::Product(rows)),
               inner = dims.size() == 3 ? size_t{3} : size_t{1};
    const auto x = Scattered(n * kClasses, 1), w = std::vector<double>{0.5, 1, 2, 1.5};
    std::vector<double> labels, chances;
    for (size_t i = 0; i < n; ++i) labels.push_back(static_cast<double>((i * 7 + 2) % kClasses));
    if (n > 2) labels[1] = -100, labels[n - 1] = 2;
    for (size_t i = 0; i < n * kClasses; ++i)
      chances.push_back((Scattered(n * kClasses, 5)[i] + 2) / 4);
    auto at = [&](size_t row, size_t c) {
      return (row / inner * kClasses + c) * inner + row % inner;
    };
    for (const bool weighted : {false, true}) {
      for (const double smooth : {0.0, 0.2}) {
        for (const auto r : {Reduction::kNone, Reduction::kMean, Reduction::kSum}) {
          std::vector<double> loss(n), soft(n), nll(n);
          double total = 0;
          for (size_t i = 0; i < n; ++i) {
            double sum = 0;
            for (size_t c = 0; c < kClasses; ++c) sum += std::exp(x[at(i, c)]);
            for (size_t c = 0; c < kClasses; ++c) {
              const double log = x[at(i, c)] - std::log(sum), weight = weighted ? w[c] : 1;
              const double p = chances[at(i, c)] * (1 - smooth) + smooth / kClasses;
              soft[i] -= weight * p * log;
              if (labels[i] == -100) continue;
              const bool hit = static_cast<double>(c) == labels[i];
              loss[i] -= weight * log * ((hit ? 1 - smooth : 0) + smooth / kClasses);
              if (hit) nll[i] = -weight * x[at(i, c)], total += weight;
            }
          }
          auto combined = [&](const std::vector<double>& v, double by) {
            if (r == Reduction::kNone) return v;
            double sum = 0;
            for (double e : v) sum += e;
            return std::vector<double>{r == Reduction::kSum ? sum : sum / by};
          };
          const fn::ClassLoss options{.weight = weighted ? In({kClasses}, w, Dtype::F64) : Tensor(),
                                      .reduction = r,
                                      .label_smoothing = smooth};
          const Tensor in = In(dims, x, Dtype::F64), target = In(rows, labels, Dtype::I32);
          ExpectNear(Out(fn::CrossEntropy(in, target, options)), combined(loss, total), Dtype::F64,
                     60, "labels");
          ExpectNear(Out(fn::CrossEntropy(in, In(dims, chances, Dtype::F64), options)),
                     combined(soft, static_cast<double>(n)), Dtype::F64, 60, "chances");
          ExpectNear(Out(fn::NllLoss(in, target, options)), combined(nll, total), Dtype::F64, 60,
                     "nll");
        }
      }
    }
    CheckGradient({{dims, x}, {{kClasses}, w}}, [&](const std::vector<Tensor>& t) {
      return fn::CrossEntropy(t[0], In(rows, labels, Dtype::I32),
                              {.weight = t[1], .label_smoothing = 0.1});
    });
    CheckSecondGradient({{dims, x}, {dims, chances}}, [&](const std::vector<Tensor>& t) {
      return fn::CrossEntropy(t[0], t[1]).Square();
    });
  }
  // Impossible classes do not count, labels out of range neither.
  const Tensor x = In({2, 3}, {0, -kInf, 0, 1, 2, 3}, Dtype::F64);
  EXPECT_THAT(Out(fn::CrossEntropy(x, In({2}, {2, 7}, Dtype::I32))),
              ElementsAre(::testing::DoubleNear(std::log(2.0), 1e-12)));
  EXPECT_FALSE(fn::CrossEntropy(x, In({3}, {0, 1, 2}, Dtype::I32)).status().ok());
  EXPECT_FALSE(fn::CrossEntropy(x, Ramp({2})).status().ok());
  EXPECT_FALSE(fn::NllLoss(Ramp({}), In({}, {0}, Dtype::I32)).status().ok());
  EXPECT_FALSE(
      fn::CrossEntropy(x, In({2}, {0, 1}, Dtype::I32), {.weight = Ramp({2})}).status().ok());
  EXPECT_FALSE(
      fn::CrossEntropy(x, In({2}, {0, 1}, Dtype::I32), {.label_smoothing = 2}).status().ok());
}

TEST_F(LossTest, Cosines) {
  const auto a = Scattered(6, 1), b = Scattered(6, 2);
  std::vector<double> want;
  for (size_t r = 0; r < 2; ++r) {
    double dot = 0, x = 0, y = 0;
    for (size_t i = 3 * r; i < 3 * r + 3; ++i)
      dot += a[i] * b[i], x += a[i] * a[i], y += b[i] * b[i];
    want.push_back(dot / std::sqrt(x * y));
  }
  const Tensor u = In({2, 3}, a, Dtype::F64), v = In({2, 3}, b, Dtype::F64);
  ExpectNear(Out(fn::CosineSimilarity(u, v)), want, Dtype::F64, 16, "cosine");
  EXPECT_THAT(Out(fn::CosineSimilarity(In({1, 2}, {0, 0}), In({1, 2}, {1, 1}))), ElementsAre(0));
  EXPECT_FALSE(fn::CosineSimilarity(Ramp({3}), Ramp({3})).status().ok());
  const Tensor t = In({2}, {1, -1}, Dtype::F64);
  ExpectNear(Out(fn::CosineEmbeddingLoss(u, v, t, 0.1, Reduction::kNone)),
             {1 - want[0], std::max(0.0, want[1] - 0.1)}, Dtype::F64, 60, "cosine embedding");
  auto f = [](const std::vector<Tensor>& x) { return fn::CosineSimilarity(x[0], x[1]); };
  CheckGradient({Input({2, 3}, 1), Input({2, 3}, 2)}, f);
  CheckSecondGradient({Input({1, 3}, 1), Input({1, 3}, 2)}, f);
}

}  // namespace
}  // namespace uopd::client::loss_cases
