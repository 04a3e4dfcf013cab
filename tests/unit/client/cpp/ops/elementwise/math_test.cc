// SPDX-License-Identifier: MIT
// Elementwise functions of two and three tensors: broadcasting, dtypes, special values, gradients.
#include <limits>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/math.h"

namespace uopd::client::pair_cases {
namespace {

using ::testing::ElementsAre;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Binary {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> f;
  double (*want)(double, double);
  double ulps = 4;
  bool special = true;
};

double LogAddExp(double a, double b) {
  if (a == b) return a + std::log(2.0);
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// NumPy's remainder.
double Mod(double a, double b) {
  const double r = std::fmod(a, b);
  if (r == 0) return std::copysign(0.0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

const std::vector<Binary>& Cases() {
  using T = const Tensor&;
  static const auto* const cases = new std::vector<Binary>{
      {"atan2", [](T a, T b) { return fn::Atan2(a, b); },
       [](double a, double b) { return std::atan2(a, b); }},
      {"copysign", [](T a, T b) { return fn::Copysign(a, b); },
       [](double a, double b) { return std::copysign(a, b); }, 0},
      {"logaddexp", [](T a, T b) { return fn::LogAddExp(a, b); }, LogAddExp, 64},
      {"hypot", [](T a, T b) { return fn::Hypot(a, b); },
       [](double a, double b) { return std::hypot(a, b); }},
      {"fmod", [](T a, T b) { return fn::Fmod(a, b); },
       [](double a, double b) { return std::fmod(a, b); }, 0},
      {"mod", [](T a, T b) { return a % b; }, Mod, 0},
  };
  return *cases;
}

class PairTest : public OpCases {};

TEST_F(PairTest, BroadcastsAllDtypes) {
  const std::vector<std::pair<Dims, Dims>> shapes = {
      {{}, {}}, {{3}, {}}, {{}, {3}}, {{2, 1, 3}, {4, 1}}, {{0, 3}, {3}}, {{5, 7}, {5, 7}}};
  int salt = 0;
  for (const Binary& c : Cases()) {
    for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16}) {
      for (const auto& [a, b] : shapes) {
        const Tensor x = Some(a, ++salt, d), y = Some(b, ++salt, d);
        const Tensor z = c.f(x, y), whole = x + y;
        ASSERT_TRUE(z.status().ok()) << c.name << z.status();
        ASSERT_EQ(z.dims(), whole.dims()) << c.name;
        ASSERT_EQ(z.dtype(), d) << c.name;
        const auto left = Out(x.Expand(whole.dims())), right = Out(y.Expand(whole.dims()));
        std::vector<double> want;
        for (size_t i = 0; i < left.size(); ++i) want.push_back(c.want(left[i], right[i]));
        ExpectNear(Out(z), want, d, ir::Bits(d) < 32 ? 0.55 : c.ulps, c.name);
      }
    }
    EXPECT_FALSE(c.f(Ramp({2}), Ramp({3})).status().ok());
    EXPECT_FALSE(c.f(Ramp({2}), Tensor()).status().ok());
    EXPECT_EQ(c.f(In({1}, {1}, Dtype::F16), In({1}, {1}, Dtype::F64)).dtype(), Dtype::F64);
  }
}

TEST_F(PairTest, SpecialValues) {
  const std::vector<double> all = {0.0, -0.0, 1, -1, 1e30, -1e30, kInf, -kInf, NAN, 3e-30};
  std::vector<double> a, b;
  for (double x : all)
    for (double y : all) a.push_back(x), b.push_back(y);
  const auto n = static_cast<int64_t>(a.size());
  for (const Binary& c : Cases()) {
    if (!c.special) continue;
    for (const Dtype d : {Dtype::F32, Dtype::F64}) {
      const Tensor x = In({n}, a, d), y = In({n}, b, d);
      const auto got = Out(c.f(x, y)), left = Out(x), right = Out(y);
      for (size_t i = 0; i < got.size(); ++i) {
        const double want = c.want(left[i], right[i]);
        const bool same =
            (std::isnan(got[i]) && std::isnan(want)) || got[i] == ir::RoundTo(d, want) ||
            std::abs(got[i] - want) <= c.ulps * Epsilon(d) * std::abs(want) + Smallest(d);
        EXPECT_TRUE(same) << c.name << "(" << left[i] << ", " << right[i] << "): " << got[i]
                          << ", not " << want;
      }
    }
  }
}

TEST_F(PairTest, Gradients) {
  for (const Binary& c : Cases()) {
    SCOPED_TRACE(c.name);
    auto f = [&](const std::vector<Tensor>& t) { return c.f(t[0], t[1]); };
    CheckGradient({Input({2, 3}, 1), Input({3}, 2)}, f);
    CheckSecondGradient({Input({2, 2}, 3), Input({2}, 4)}, f);
  }
}

TEST_F(PairTest, RemaindersAndQuotients) {
  // Quotients that are rounded to the next integer, and infinite divisors.
  const Tensor x = In({4}, {std::nextafter(3.0, 0.0), -5, 5, 0.3}, Dtype::F64);
  const Tensor y = In({4}, {0.1, kInf, 3, 0.1}, Dtype::F64);
  const auto got = Out(fn::Fmod(x, y)), floors = Out(x.FloorDiv(y)),
             divided = Out(fn::Div(x, y, fn::Rounding::kFloor));
  const auto left = Out(x), right = Out(y);
  const double quotients[] = {29, -1, 1, 2};
  for (size_t at = 0; at < 4; ++at) {
    EXPECT_EQ(got[at], std::fmod(left[at], right[at])) << at;
    EXPECT_EQ(floors[at], quotients[at]) << at;
    EXPECT_EQ(divided[at], quotients[at]) << at;
  }
  // Quotients of many more bits than the dtype has.
  for (const auto& [d, a, b] : {std::tuple{Dtype::F32, 3e38, 1.1e-40},
                                {Dtype::F32, 1e10, 3.0},
                                {Dtype::F64, 1e50, 3.0},
                                {Dtype::F64, 1e300, 1e250},
                                {Dtype::F64, 1.7e308, 5e307},
                                {Dtype::BF16, 3e38, 7.0}}) {
    const Tensor u = In({2}, {a, -a}, d), v = In({2}, {b, b}, d);
    const auto r = Out(fn::Fmod(u, v)), m = Out(u % v), l = Out(u), w = Out(v);
    for (size_t at : {0, 1}) {
      EXPECT_EQ(r[at], std::fmod(l[at], w[at])) << l[at] << ", " << w[at];
      EXPECT_EQ(m[at], ir::RoundTo(d, Mod(l[at], w[at]))) << l[at] << ", " << w[at];
    }
  }
  EXPECT_TRUE(std::isnan(Out(fn::Fmod(In({}, {1e300}, Dtype::F64), In({}, {1.0}, Dtype::F64)))[0]));
  const Tensor i = In({4}, {7, -7, 7, -7}, Dtype::I32), j = In({4}, {2, 2, -2, -2}, Dtype::I32);
  EXPECT_THAT(Out(fn::Fmod(i, j)), ElementsAre(1, -1, 1, -1));
  EXPECT_THAT(Out(fn::Div(i, j, fn::Rounding::kTrunc)), ElementsAre(3, -3, -3, 3));
  EXPECT_THAT(Out(fn::Div(i, j, fn::Rounding::kFloor)), ElementsAre(3, -4, -4, 3));
  EXPECT_EQ(fn::Div(i, j, fn::Rounding::kTrunc).dtype(), Dtype::I32);
  EXPECT_THAT(Out(fn::Div(i, j)), ElementsAre(3.5, -3.5, -3.5, 3.5));
  EXPECT_THAT(Out(fn::Div(In({2}, {7, -7}), 2, fn::Rounding::kTrunc)), ElementsAre(3, -3));
  EXPECT_FALSE(fn::Div(i, Ramp({3}), fn::Rounding::kTrunc).status().ok());
}

TEST_F(PairTest, ClosenessAndInterpolation) {
  const Tensor a = In({6}, {1, 1, kInf, kInf, NAN, 1}),
               b = In({6}, {1 + 1e-6, 1.1, kInf, -kInf, NAN, kInf});
  EXPECT_THAT(Out(fn::IsClose(a, b)), ElementsAre(1, 0, 1, 0, 0, 0));
  EXPECT_THAT(Out(fn::IsClose(a, b, 1e-5, 1e-8, true)), ElementsAre(1, 0, 1, 0, 1, 0));
  EXPECT_THAT(Out(fn::Lerp(In({2}, {0, 10}), In({2}, {4, 20}), 0.25)), ElementsAre(1, 12.5));
  EXPECT_THAT(Out(fn::Lerp(In({2}, {0.1, 1e8}), 0.3, In({2}, {1, 1}))), ElementsAre(0.3f, 0.3f));
  CheckGradient({Input({2, 3}, 1), Input({3}, 2), Input({2, 1}, 3)},
                [](const std::vector<Tensor>& t) { return fn::Lerp(t[0], t[1], t[2]); });
}

TEST_F(PairTest, FillsMasks) {
  const Tensor x = Ramp({2, 2}), mask = In({2}, {1, 0}, Dtype::Bool);
  EXPECT_THAT(Out(fn::MaskedFill(x, mask, -1)), ElementsAre(-1, 1, -1, 3));
  EXPECT_EQ(fn::MaskedFill(In({2}, {1, 2}, Dtype::F16), mask, 2.5).dtype(), Dtype::F16);
  EXPECT_THAT(Out(fn::MaskedFill(x, mask, In({2, 1}, {7, 8}))), ElementsAre(7, 1, 8, 3));
  EXPECT_FALSE(fn::MaskedFill(Ramp({2}), In({2, 2}, {1, 1, 0, 0}, Dtype::Bool), 0).status().ok());
  EXPECT_FALSE(fn::MaskedFill(x, x, 0).status().ok());
  EXPECT_FALSE(fn::MaskedFill(In({2}, {1, 2}, Dtype::I32), mask, kInf).status().ok());
  CheckGradient({Input({2, 2}, 1), Input({2}, 2)},
                [&](const std::vector<Tensor>& t) { return fn::MaskedFill(t[0], mask, t[1]); });
  // The largest finite values of each dtype.
  for (const Dtype d : {Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64}) {
    const auto y = Out(fn::NanToNum(In({3}, {kInf, -kInf, NAN}, d)));
    EXPECT_TRUE(std::isfinite(y[0])) << y[0];
    EXPECT_FALSE(std::isfinite(ir::RoundTo(d, y[0] * (1 + Epsilon(d))))) << y[0];
    EXPECT_EQ(y[1], -y[0]);
    EXPECT_EQ(y[2], 0);
  }
}

}  // namespace
}  // namespace uopd::client::pair_cases
