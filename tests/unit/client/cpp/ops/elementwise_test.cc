// SPDX-License-Identifier: MIT
// Every elementwise function of one tensor, over shapes, dtypes and special values.
#include <limits>

#include "tests/unit/client/cpp/ops/op_cases.h"
#include "uopd/activations.h"
#include "uopd/math.h"

namespace uopd::client::unary_cases {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Unary {
  const char* name;
  std::function<Tensor(const Tensor&)> f;
  double (*want)(double);
  double low, high;     // where values and gradients are tested
  double ulps = 4;      // of f32 and f64
  bool smooth = true;   // has a second derivative everywhere in (low, high) but at a few points
  double most = 1e30;   // largest magnitude that is tested
  bool special = true;  // NaN and infinities are as in the reference
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double Elu(double x) { return x > 0 ? x : std::expm1(x); }
double Six(double x) { return std::isnan(x) ? x : std::min(std::max(x, 0.0), 6.0); }

const std::vector<Unary>& Cases() {
  using T = const Tensor&;
  static const auto* const cases = new std::vector<Unary>{
      {"expm1", [](T x) { return fn::Expm1(x); }, [](double v) { return std::expm1(v); }, -3, 3, 3,
       true, 80},
      {"log1p", [](T x) { return fn::Log1p(x); }, [](double v) { return std::log1p(v); }, -0.95, 4,
       6},
      {"log10", [](T x) { return fn::Log10(x); }, [](double v) { return std::log10(v); }, 0.1, 9},
      {"exp10", [](T x) { return fn::Exp10(x); }, [](double v) { return std::pow(10, v); }, -2, 2,
       2, true, 30},
      {"tan", [](T x) { return fn::Tan(x); }, [](double v) { return std::tan(v); }, -1.2, 1.2, 4,
       true, 1.5},
      {"asin", [](T x) { return fn::Asin(x); }, [](double v) { return std::asin(v); }, -0.95, 0.95},
      {"acos", [](T x) { return fn::Acos(x); }, [](double v) { return std::acos(v); }, -0.95, 0.95},
      {"atan", [](T x) { return fn::Atan(x); }, [](double v) { return std::atan(v); }, -5, 5},
      {"sinh", [](T x) { return fn::Sinh(x); }, [](double v) { return std::sinh(v); }, -3, 3, 3,
       true, 89},
      {"cosh", [](T x) { return fn::Cosh(x); }, [](double v) { return std::cosh(v); }, -3, 3, 3,
       true, 89},
      {"tanh", [](T x) { return fn::Tanh(x); }, [](double v) { return std::tanh(v); }, -3, 3, 6},
      {"asinh", [](T x) { return fn::Asinh(x); }, [](double v) { return std::asinh(v); }, -4, 4, 6},
      {"acosh", [](T x) { return fn::Acosh(x); }, [](double v) { return std::acosh(v); }, 1.1, 8,
       6},
      {"atanh", [](T x) { return fn::Atanh(x); }, [](double v) { return std::atanh(v); }, -0.95,
       0.95, 6},
      {"erf", [](T x) { return fn::Erf(x); }, [](double v) { return std::erf(v); }, -3, 3},
      {"erfc", [](T x) { return fn::Erfc(x); }, [](double v) { return std::erfc(v); }, -3, 3, 40,
       true, 4},
      {"round", [](T x) { return fn::Round(x); }, [](double v) { return std::nearbyint(v); }, -4, 4,
       0},
      {"abs", [](T x) { return x.Abs(); }, [](double v) { return std::abs(v); }, -4, 4, 0},
      {"leaky_relu", [](T x) { return fn::LeakyRelu(x); },
       [](double v) { return v < 0 ? 0.01 * v : v; }, -3, 3, 2},
      {"relu6", [](T x) { return fn::Relu6(x); }, Six, -3, 9, 0},
      {"threshold", [](T x) { return fn::Threshold(x, 0.5, -2); },
       [](double v) { return v <= 0.5 ? -2 : v; }, -3, 3, 0},
      {"elu", [](T x) { return fn::Elu(x); }, Elu, -3, 3, 6},
      {"celu", [](T x) { return fn::Celu(x, 2); },
       [](double v) { return v > 0 ? v : 2 * std::expm1(v / 2); }, -3, 3, 6},
      {"selu", [](T x) { return fn::Selu(x); },
       [](double v) {
         return 1.0507009873554804934 * (v > 0 ? v : 1.6732632423543772848 * std::expm1(v));
       },
       -3, 3, 8},
      {"softplus", [](T x) { return fn::Softplus(x); }, Softplus, -5, 5, 90},
      {"softplus_beta", [](T x) { return fn::Softplus(x, 3); },
       [](double v) { return Softplus(3 * v) / 3; }, -3, 3, 90},
      {"log_sigmoid", [](T x) { return fn::LogSigmoid(x); }, [](double v) { return -Softplus(-v); },
       -5, 5, 90},
      {"softsign", [](T x) { return fn::Softsign(x); },
       [](double v) { return v / (1 + std::abs(v)); }, -3, 3, 4, true, 1e30, false},
      {"mish", [](T x) { return fn::Mish(x); }, [](double v) { return v * std::tanh(Softplus(v)); },
       -3, 3, 90, true, 60, false},
      {"hard_sigmoid", [](T x) { return fn::HardSigmoid(x); },
       [](double v) { return Six(v + 3) / 6; }, -6, 6},
      {"hard_swish", [](T x) { return fn::HardSwish(x); },
       [](double v) { return v * Six(v + 3) / 6; }, -6, 6, 4, true, 1e30, false},
      {"hard_tanh", [](T x) { return fn::HardTanh(x, -2, 1); },
       [](double v) { return std::isnan(v) ? v : std::min(std::max(v, -2.0), 1.0); }, -3, 3, 0},
      {"hard_shrink", [](T x) { return fn::HardShrink(x); },
       [](double v) { return v >= -0.5 && v <= 0.5 ? 0 : v; }, -3, 3, 0},
      {"soft_shrink", [](T x) { return fn::SoftShrink(x); },
       [](double v) {
         return v > 0.5 ? v - 0.5 : v < -0.5 ? v + 0.5 : std::isnan(v) ? v : 0;
       },
       -3, 3, 4},
      {"gelu", [](T x) { return fn::Gelu(x); },
       [](double v) { return 0.5 * v * std::erfc(-v * std::sqrt(0.5)); }, -4, 4, 60, true, 6,
       false},
      {"gelu_tanh", [](T x) { return fn::Gelu(x, fn::GeluForm::kTanh); },
       [](double v) { return v * Sigmoid(2 * std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)); },
       -4, 4, 60, true, 6, false},
      {"quick_gelu", [](T x) { return fn::QuickGelu(x); },
       [](double v) { return v * Sigmoid(1.702 * v); }, -4, 4, 60, true, 30, false},
      {"is_inf", [](T x) { return fn::IsInf(x); }, [](double v) { return std::isinf(v) ? 1.0 : 0; },
       0, 0, 0, false},
      {"is_finite", [](T x) { return fn::IsFinite(x); },
       [](double v) { return std::isfinite(v) ? 1.0 : 0; }, 0, 0, 0, false},
      {"nan_to_num", [](T x) { return fn::NanToNum(x, 3, 7, -9); },
       [](double v) { return std::isnan(v) ? 3
                             : v == kInf   ? 7
                             : v == -kInf  ? -9
                                           : v; }, -3, 3, 0},
  };
  return *cases;
}

class UnaryTest : public OpCases {};

std::vector<double> ValuesOf(size_t n, int salt, double low, double high) {
  std::vector<double> out(n);
  uint64_t state = 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(salt + 17);
  for (double& v : out) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    v = low + (high - low) * static_cast<double>(state >> 11) * 0x1p-53;
  }
  return out;
}

TEST_F(UnaryTest, ValuesOfAllShapesAndDtypes) {
  for (const Unary& c : Cases()) {
    int salt = 0;
    for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16}) {
      for (const Dims& dims : OddShapes()) {
        const auto n = static_cast<size_t>(ir::Product(dims));
        const double low = c.low == c.high ? -4 : c.low, high = c.low == c.high ? 4 : c.high;
        const Tensor x = In(dims, ValuesOf(n, ++salt, low, high), d);
        const Tensor y = c.f(x);
        ASSERT_TRUE(y.status().ok()) << c.name << y.status();
        ASSERT_EQ(y.dims(), dims) << c.name;
        std::vector<double> want;
        for (double v : Out(x)) want.push_back(c.want(v));
        const bool narrow = ir::Bits(d) < 32;
        ExpectNear(Out(y), want, y.dtype() == Dtype::Bool ? Dtype::Bool : d, narrow ? 0.55 : c.ulps,
                   c.name, Out(x));
      }
    }
  }
}

// Tiny values keep their digits; large ones do not overflow on the way; NaN and infinities are the
// library's.
TEST_F(UnaryTest, ExtremeValues) {
  for (const Unary& c : Cases()) {
    for (const Dtype d : {Dtype::F32, Dtype::F64}) {
      std::vector<double> at;
      for (double v : {0.0, 1e-30, 1e-12, 1e-7, 1e-4, 0.01, 0.2, 0.29, 0.3, 0.41, 0.49,
                       0.5, 0.51,  0.7,   0.99, 1.0,  1.01, 1.5, 2.0,  2.5, 3.0,  5.5,
                       6.0, 7.0,   11.0,  21.0, 50.0, 80.0, 1e3, 2e5,  1e9, 1e19, 3e29})
        if (v <= c.most) at.push_back(v), at.push_back(-v);
      if (c.special) at.push_back(kNan), at.push_back(kInf), at.push_back(-kInf);
      const Tensor x = In({static_cast<int64_t>(at.size())}, at, d);
      std::vector<double> want;
      for (double v : Out(x)) want.push_back(c.want(v));
      const Tensor y = c.f(x);
      ExpectNear(Out(y), want, y.dtype() == Dtype::Bool ? Dtype::Bool : d, c.ulps, c.name, Out(x));
    }
  }
}

TEST_F(UnaryTest, IntegersBecomeFloats) {
  for (const Unary& c : Cases()) {
    const Tensor y = c.f(In({3}, {1, 1, 2}, Dtype::I32));
    ASSERT_TRUE(y.status().ok()) << c.name << y.status();
    std::vector<double> want = {c.want(1), c.want(1), c.want(2)};
    ExpectNear(Out(y), want, ir::IsFloat(y.dtype()) ? Dtype::F32 : y.dtype(), c.ulps, c.name);
    EXPECT_FALSE(c.f(Tensor()).status().ok()) << c.name;
  }
}

TEST_F(UnaryTest, Gradients) {
  for (const Unary& c : Cases()) {
    if (c.low == c.high) continue;
    SCOPED_TRACE(c.name);
    CheckGradient({{{9}, ValuesOf(9, 5, c.low, c.high)}},
                  [&](const std::vector<Tensor>& t) { return c.f(t[0]); });
    if (c.smooth)
      CheckSecondGradient({{{5}, ValuesOf(5, 6, c.low, c.high)}},
                          [&](const std::vector<Tensor>& t) { return c.f(t[0]) * t[0]; });
  }
}

// At points where branches meet.
TEST_F(UnaryTest, GradientsAtZero) {
  const Tensor zero = In({1}, {0}, Dtype::F64);
  using F = Tensor (*)(const Tensor&);
  struct At {
    const char* name;
    F f;
    double want;
  };
  const At cases[] = {
      {"asinh", [](const Tensor& x) { return fn::Asinh(x); }, 1},
      {"atanh", [](const Tensor& x) { return fn::Atanh(x); }, 1},
      {"tanh", [](const Tensor& x) { return fn::Tanh(x); }, 1},
      {"erf", [](const Tensor& x) { return fn::Erf(x); }, 2 / std::sqrt(M_PI)},
      {"asin", [](const Tensor& x) { return fn::Asin(x); }, 1},
      {"softplus", [](const Tensor& x) { return fn::Softplus(x); }, 0.5},
      {"sinh", [](const Tensor& x) { return fn::Sinh(x); }, 1},
      {"softsign", [](const Tensor& x) { return fn::Softsign(x); }, 1},
      {"gelu", [](const Tensor& x) { return fn::Gelu(x); }, 0.5},
      {"elu", [](const Tensor& x) { return fn::Elu(x); }, 1},
  };
  for (const At& c : cases) {
    const auto g = Gradient(c.f(zero).Sum(), std::span(&zero, 1));
    ASSERT_TRUE(g.ok());
    EXPECT_NEAR(Out((*g)[0])[0], c.want, 1e-12) << c.name;
  }
}

// Far from zero no gradient becomes NaN: branches that are not taken contribute 0.
TEST_F(UnaryTest, GradientsFarFromZeroAreFinite) {
  const Tensor x = In({8}, {-1e30, -200, -95, -20, 20, 95, 200, 1e30});
  for (const auto& f :
       {+[](const Tensor& t) { return fn::Asinh(t); }, +[](const Tensor& t) { return fn::Tanh(t); },
        +[](const Tensor& t) { return fn::Erf(t); },
        +[](const Tensor& t) { return fn::Softplus(t); },
        +[](const Tensor& t) { return fn::LogSigmoid(t); },
        +[](const Tensor& t) { return fn::Elu(t); },
        +[](const Tensor& t) { return fn::Atan(t); }}) {
    const auto g = Gradient(f(x).Sum(), std::span(&x, 1));
    ASSERT_TRUE(g.ok());
    for (double v : Out((*g)[0])) EXPECT_TRUE(std::isfinite(v));
  }
}

TEST_F(UnaryTest, GluHalvesAndPreluChannels) {
  const auto x = Scattered(12);
  std::vector<double> want;
  for (size_t r = 0; r < 3; ++r)
    for (size_t i = 0; i < 2; ++i) want.push_back(x[r * 4 + i] * Sigmoid(x[r * 4 + 2 + i]));
  ExpectNear(Out(fn::Glu(In({3, 4}, x, Dtype::F64))), want, Dtype::F64, 8, "glu");
  EXPECT_FALSE(fn::Glu(Ramp({3})).status().ok());
  EXPECT_FALSE(fn::Glu(Ramp({})).status().ok());
  EXPECT_THAT(Out(fn::Prelu(In({1, 2, 2}, {-1, 2, -3, 4}), In({2}, {0.5, 2}))),
              ::testing::ElementsAre(-0.5, 2, -6, 4));
  EXPECT_THAT(Out(fn::Prelu(In({2}, {-1, 2}), In({1}, {0.5}))), ::testing::ElementsAre(-0.5, 2));
  EXPECT_FALSE(fn::Prelu(Ramp({1, 3}), Ramp({2})).status().ok());
  CheckGradient({Input({2, 3, 2}, 1), Input({3}, 2)},
                [](const std::vector<Tensor>& t) { return fn::Prelu(t[0], t[1]); });
  CheckGradient({Input({2, 4}, 1)}, [](const std::vector<Tensor>& t) { return fn::Glu(t[0], 1); });
}

}  // namespace
}  // namespace uopd::client::unary_cases
