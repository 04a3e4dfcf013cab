// SPDX-License-Identifier: MIT
// Convolution, pooling, normalisation, attention and embedding against loops in double precision.
#include "uopd/functional.h"

#include <cmath>

#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/nn.h"
#include "uopd/pooling.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointwise;

class FunctionalTest : public OperationTest {};

struct Conv2 {
  int64_t n, in, h, w, out, kh, kw;
  int64_t sh = 1, sw = 1, ph = 0, pw = 0, dh = 1, dw = 1, groups = 1;
  int64_t oh() const { return (h + 2 * ph - (kh - 1) * dh - 1) / sh + 1; }
  int64_t ow() const { return (w + 2 * pw - (kw - 1) * dw - 1) / sw + 1; }
  fn::ConvOptions options() const {
    return {.stride = {sh, sw}, .padding = {ph, pw}, .dilation = {dh, dw}, .groups = groups};
  }
};

constexpr Conv2 kConvs[] = {
    {1, 1, 1, 1, 1, 1, 1},
    {2, 3, 7, 5, 4, 3, 3},
    {1, 2, 8, 8, 3, 3, 3, 2, 2, 1, 1},
    {1, 2, 9, 6, 3, 2, 3, 3, 2, 0, 1},           // stride over the kernel
    {1, 3, 11, 9, 2, 3, 2, 1, 2, 2, 1, 3, 2},    // dilated
    {2, 4, 5, 6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 2},  // groups
    {1, 4, 5, 5, 4, 3, 3, 1, 1, 1, 1, 1, 1, 4},  // one group a channel
    {1, 3, 13, 13, 2, 7, 7, 2, 2, 3, 3},         // as a first layer
    {1, 2, 4, 4, 2, 4, 4},                       // one window
    {1, 2, 6, 6, 2, 1, 1, 2, 2},                 // 1 x 1, strided
    {1, 1, 3, 2, 1, 2, 2, 5, 7, 3, 2, 2, 3, 1},  // stride over everything
};

std::vector<double> ConvLoops(const Conv2& c, const std::vector<double>& x,
                              const std::vector<double>& w, const std::vector<double>& b) {
  std::vector<double> y;
  const int64_t per = c.in / c.groups, outs = c.out / c.groups;
  for (int64_t n = 0; n < c.n; ++n)
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t i = 0; i < c.oh(); ++i)
        for (int64_t j = 0; j < c.ow(); ++j) {
          double sum = b.empty() ? 0 : b[static_cast<size_t>(o)];
          for (int64_t p = 0; p < per; ++p)
            for (int64_t u = 0; u < c.kh; ++u)
              for (int64_t v = 0; v < c.kw; ++v) {
                const int64_t r = i * c.sh + u * c.dh - c.ph, q = j * c.sw + v * c.dw - c.pw;
                if (r < 0 || r >= c.h || q < 0 || q >= c.w) continue;
                const int64_t channel = o / outs * per + p;
                sum += x[static_cast<size_t>(((n * c.in + channel) * c.h + r) * c.w + q)] *
                       w[static_cast<size_t>(((o * per + p) * c.kh + u) * c.kw + v)];
              }
          y.push_back(sum);
        }
  return y;
}

TEST_F(FunctionalTest, ConvAgainstLoops) {
  for (const Conv2& c : kConvs) {
    SCOPED_TRACE(::testing::Message() << c.h << "x" << c.w << " by " << c.kh << "x" << c.kw
                                      << " stride " << c.sh << "," << c.sw);
    const Dims xd = {c.n, c.in, c.h, c.w}, wd = {c.out, c.in / c.groups, c.kh, c.kw};
    const auto x = Scattered(static_cast<size_t>(ir::Product(xd)), 1),
               w = Scattered(static_cast<size_t>(ir::Product(wd)), 2),
               b = Scattered(static_cast<size_t>(c.out), 3);
    const Tensor y = fn::Conv(In(xd, x, Dtype::F64), In(wd, w, Dtype::F64),
                              In({c.out}, b, Dtype::F64), c.options());
    ASSERT_TRUE(y.status().ok()) << y.status();
    EXPECT_EQ(y.dims(), (Dims{c.n, c.out, c.oh(), c.ow()}));
    EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-11), ConvLoops(c, x, w, b)));
  }
}

TEST_F(FunctionalTest, ConvGradients) {
  for (size_t i : {2u, 3u, 4u, 5u, 10u}) {
    Conv2 c = kConvs[i];
    c.n = 1, c.h = std::min<int64_t>(c.h, 6), c.w = std::min<int64_t>(c.w, 5);
    SCOPED_TRACE(i);
    CheckGradient(
        {Input({c.n, c.in, c.h, c.w}, 1), Input({c.out, c.in / c.groups, c.kh, c.kw}, 2),
         Input({c.out}, 3)},
        [&](const std::vector<Tensor>& t) { return fn::Conv(t[0], t[1], t[2], c.options()); });
  }
}

TEST_F(FunctionalTest, ConvOfOneAndThreeAxes) {
  // Over one axis: x = 1, 2, 3, 4 by (1, 10).
  EXPECT_THAT(Out(fn::Conv(Ramp({1, 1, 4}, 1, 1), In({1, 1, 2}, {1, 10}))),
              ElementsAre(21, 32, 43));
  // Over three axes of ones: the volume of the kernel.
  const Tensor y = fn::Conv(client_.Ones({1, 2, 3, 3, 3}), client_.Ones({1, 2, 2, 2, 2}));
  EXPECT_EQ(y.dims(), (Dims{1, 1, 2, 2, 2}));
  EXPECT_THAT(Out(y), ::testing::Each(16));
}

TEST_F(FunctionalTest, ConvOfNothing) {
  EXPECT_EQ(fn::Conv(Ramp({0, 2, 4, 4}), Ramp({3, 2, 3, 3})).dims(), (Dims{0, 3, 2, 2}));
  EXPECT_THAT(Out(fn::Conv(Ramp({0, 2, 4, 4}), Ramp({3, 2, 3, 3}))), IsEmpty());
}

TEST_F(FunctionalTest, ConvSaysWhatDoesNotFit) {
  const Tensor x = Ramp({1, 4, 5, 5});
  EXPECT_THAT(StatusText(fn::Conv(x, Ramp({2, 3, 3, 3})).status()),
              HasSubstr("Conv: weight (2, 3, 3, 3)"));
  EXPECT_THAT(StatusText(fn::Conv(x, Ramp({2, 3, 3, 3})).status()),
              HasSubstr("functional_test.cc"));
  EXPECT_FALSE(fn::Conv(x, Ramp({3, 2, 3, 3}), {}, {.groups = 2}).status().ok());
  EXPECT_FALSE(fn::Conv(x, Ramp({2, 4, 3, 3}), Ramp({3})).status().ok());
  EXPECT_FALSE(fn::Conv(x, Ramp({2, 4, 3, 3}), {}, {.stride = {0}}).status().ok());
  EXPECT_FALSE(fn::Conv(x, Ramp({2, 4, 3, 3}), {}, {.stride = {1, 1, 1}}).status().ok());
  EXPECT_FALSE(fn::Conv(Ramp({4, 5}), Ramp({4, 5})).status().ok());
  EXPECT_FALSE(fn::Conv(x, Tensor()).status().ok());
}

TEST_F(FunctionalTest, WindowsLargerThanTheirInputAreRefused) {
  const Tensor x = Ramp({1, 2, 2, 4});
  EXPECT_THAT(StatusText(fn::Conv(x, Ramp({3, 2, 3, 3})).status()),
              HasSubstr("weight (3, 2, 3, 3)"));
  EXPECT_EQ(fn::Conv(x, Ramp({3, 2, 3, 3}), {}, {.padding = {1, 0}}).dims(), (Dims{1, 3, 2, 2}));
  EXPECT_FALSE(fn::Conv(x, Ramp({3, 2, 2, 2}), {}, {.dilation = {2, 1}}).status().ok());
  EXPECT_EQ(Out(fn::Conv(x, Ramp({3, 2, 1, 1}), {}, {.padding = {0, -1}})),
            Out(fn::Conv(x.Slice({{}, {}, {}, {1, 3}}), Ramp({3, 2, 1, 1}))));
  EXPECT_FALSE(
      fn::Conv(x, Ramp({3, 2, 2, 2}), {}, {.dilation = {INT64_MAX, INT64_MAX}}).status().ok());
  for (const bool ceil : {false, true}) {
    EXPECT_FALSE(fn::MaxPool(x, {3, 3}, {.ceil_mode = ceil}).status().ok());
    EXPECT_FALSE(fn::AvgPool(x, {2, 5}, {.ceil_mode = ceil}).status().ok());
    EXPECT_FALSE(fn::MaxPoolWithIndices(x, {3, 1}, {.ceil_mode = ceil}).first.status().ok());
    EXPECT_TRUE(fn::MaxPool(x, {3, 3}, {.padding = {1, 1}, .ceil_mode = ceil}).status().ok());
  }
}

TEST_F(FunctionalTest, BatchNormTakesStatisticsOfAllAxes) {
  const Tensor x = Ramp({2, 3, 2}), w = In({3}, {1, 2, 3}), b = In({3}, {0, 1, 0});
  const Tensor mean = Ramp({2, 3, 2}, 0.5), var = In({1, 3, 1}, {1, 4, 9});
  const auto y = Out(fn::BatchNorm(x, mean, var, w, b, 0));
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t c = i / 2 % 3;
    const double root = static_cast<double>(c) + 1, off = 0.5 * static_cast<double>(i);
    EXPECT_NEAR(y[i], off / root * (static_cast<double>(c) + 1) + (c == 1 ? 1 : 0), 1e-5);
  }
  EXPECT_EQ(Out(fn::BatchNorm(x, mean, Ramp({2, 3, 2}, 0, 1), {}, {}, 0)), Out(x - mean));
  EXPECT_FALSE(fn::BatchNorm(x, Ramp({2, 3, 3}), var, {}, {}).status().ok());
  EXPECT_FALSE(fn::BatchNorm(x, Ramp({3, 2}), var, {}, {}).status().ok());
}

TEST_F(FunctionalTest, PoolsAgainstLoops) {
  struct Case {
    int64_t h, w, k, s, p, d;
  };
  for (const Case& c : {Case{5, 7, 2, 2, 0, 1}, Case{6, 5, 3, 2, 1, 1}, Case{7, 7, 3, 1, 1, 2},
                        Case{4, 4, 4, 4, 0, 1}, Case{5, 5, 2, 3, 0, 1}}) {
    SCOPED_TRACE(::testing::Message() << c.h << "x" << c.w << " kernel " << c.k);
    const auto x = Scattered(static_cast<size_t>(2 * 3 * c.h * c.w), 5);
    const int64_t oh = (c.h + 2 * c.p - (c.k - 1) * c.d - 1) / c.s + 1,
                  ow = (c.w + 2 * c.p - (c.k - 1) * c.d - 1) / c.s + 1;
    std::vector<double> most, mean, inside;
    for (int64_t q = 0; q < 6; ++q)
      for (int64_t i = 0; i < oh; ++i)
        for (int64_t j = 0; j < ow; ++j) {
          double top = -INFINITY, sum = 0, count = 0;
          for (int64_t u = 0; u < c.k; ++u)
            for (int64_t v = 0; v < c.k; ++v) {
              const int64_t r = i * c.s + u * c.d - c.p, e = j * c.s + v * c.d - c.p;
              if (r < 0 || r >= c.h || e < 0 || e >= c.w) continue;
              const double value = x[static_cast<size_t>((q * c.h + r) * c.w + e)];
              top = std::max(top, value), sum += value, ++count;
            }
          most.push_back(top), mean.push_back(sum / static_cast<double>(c.k * c.k)),
              inside.push_back(sum / count);
        }
    const Tensor t = In({2, 3, c.h, c.w}, x, Dtype::F64);
    const fn::PoolOptions o = {.stride = {c.s}, .padding = {c.p}, .dilation = {c.d}};
    EXPECT_THAT(Out(fn::MaxPool(t, {c.k}, o)), Pointwise(DoubleNear(0), most));
    EXPECT_THAT(Out(fn::AvgPool(t, {c.k}, o)), Pointwise(DoubleNear(1e-12), mean));
    fn::PoolOptions only = o;
    only.count_padding = false;
    EXPECT_THAT(Out(fn::AvgPool(t, {c.k}, only)), Pointwise(DoubleNear(1e-12), inside));
  }
}

TEST_F(FunctionalTest, PoolGradients) {
  CheckGradient({Input({1, 2, 5, 4}, 3)}, [](const std::vector<Tensor>& t) {
    return fn::MaxPool(t[0], {3}, {.stride = {2}, .padding = {1}});
  });
  CheckGradient({Input({1, 2, 4, 6}, 4)},
                [](const std::vector<Tensor>& t) { return fn::AvgPool(t[0], {2, 3}); });
}

TEST_F(FunctionalTest, PoolsOfSpecialValues) {
  // Padding does not win over what is smaller than 0, nor hide NaN.
  const fn::PoolOptions o = {.stride = {1}, .padding = {1}};
  EXPECT_THAT(Out(fn::MaxPool(In({1, 1, 2}, {-5, -7}), {2}, o)), ElementsAre(-5, -5, -7));
  const auto y = Out(fn::MaxPool(In({1, 1, 3}, {NAN, 1, -INFINITY}), {2}, {.stride = {1}}));
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 1);
  EXPECT_THAT(Out(fn::MaxPool(In({1, 1, 2}, {-128, -3}, Dtype::I8), {2}, o)),
              ElementsAre(-128, -3, -3));
  EXPECT_FALSE(fn::MaxPool(Ramp({2, 3}), {2}).status().ok());
  EXPECT_FALSE(fn::AvgPool(Ramp({1, 1, 4, 4}), {2, 2, 2}).status().ok());
}

// Mean and variance of x[from], x[from + step], ...
std::pair<double, double> Moments(const std::vector<double>& x, const std::vector<size_t>& at) {
  double mean = 0, var = 0;
  for (size_t i : at) mean += x[i] / static_cast<double>(at.size());
  for (size_t i : at) var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(at.size());
  return {mean, var};
}

TEST_F(FunctionalTest, NormsAgainstLoops) {
  const auto x = Scattered(3 * 7, 1), w = Scattered(7, 2), b = Scattered(7, 3);
  std::vector<double> layer, rms;
  for (size_t r = 0; r < 3; ++r) {
    std::vector<size_t> at;
    double squares = 0;
    for (size_t i = 0; i < 7; ++i) at.push_back(r * 7 + i), squares += x[at[i]] * x[at[i]] / 7;
    const auto [mean, var] = Moments(x, at);
    for (size_t i = 0; i < 7; ++i) {
      layer.push_back((x[at[i]] - mean) / std::sqrt(var + 1e-5) * w[i] + b[i]);
      rms.push_back(x[at[i]] / std::sqrt(squares + 1e-5) * w[i]);
    }
  }
  const Tensor t = In({3, 7}, x, Dtype::F64), tw = In({7}, w, Dtype::F64),
               tb = In({7}, b, Dtype::F64);
  EXPECT_THAT(Out(fn::LayerNorm(t, tw, tb)), Pointwise(DoubleNear(1e-12), layer));
  EXPECT_THAT(Out(fn::RmsNorm(t, tw)), Pointwise(DoubleNear(1e-12), rms));
  // Narrow floats are normalised in f32: squares of 300 overflow f16.
  const Tensor h = fn::RmsNorm(In({1, 2}, {300, -300}, Dtype::F16), {});
  EXPECT_EQ(h.dtype(), Dtype::F16);
  EXPECT_THAT(Out(h), ElementsAre(1, -1));
  EXPECT_FALSE(fn::LayerNorm(t, tw, tb, 3).status().ok());
  EXPECT_FALSE(fn::LayerNorm(t, Ramp({5}), {}).status().ok());
  auto all = [](auto f) {
    return [f](const std::vector<Tensor>& v) { return f(v[0], v[1], v[2]); };
  };
  CheckGradient({Input({2, 5}, 1), Input({5}, 2), Input({5}, 3)},
                all([](const Tensor& a, const Tensor& g, const Tensor& c) {
                  return fn::LayerNorm(a, g, c);
                }));
  CheckGradient({Input({2, 5}, 4), Input({5}, 5)},
                [](const std::vector<Tensor>& v) { return fn::RmsNorm(v[0], v[1]); });
}

TEST_F(FunctionalTest, BatchNormAgainstLoops) {
  constexpr size_t kN = 3, kC = 2, kArea = 5;
  const auto x = Scattered(kN * kC * kArea, 1);
  std::vector<double> trained(x.size()), used(x.size()), mean(kC), var(kC);
  const std::vector<double> w = {1.5, -0.5}, b = {0.25, 2};
  BatchNorm layer(client_, kC, 1e-3, 0.2);
  layer.weight.Assign(In({kC}, w)), layer.bias.Assign(In({kC}, b));
  for (size_t c = 0; c < kC; ++c) {
    std::vector<size_t> at;
    for (size_t n = 0; n < kN; ++n)
      for (size_t i = 0; i < kArea; ++i) at.push_back((n * kC + c) * kArea + i);
    const auto [m, v] = Moments(x, at);
    mean[c] = 0.2 * m;
    var[c] = 0.8 + 0.2 * v * 15 / 14;
    for (size_t i : at) {
      trained[i] = (x[i] - m) / std::sqrt(v + 1e-3) * w[c] + b[c];
      used[i] = (x[i] - mean[c]) / std::sqrt(var[c] + 1e-3) * w[c] + b[c];
    }
  }
  const Tensor t = In({kN, kC, kArea, 1}, x);
  const Tensor y = layer.Train(t);
  ASSERT_TRUE(Realize({y, layer.mean, layer.var}).ok());
  EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-5), trained));
  EXPECT_THAT(Out(layer.mean), Pointwise(DoubleNear(1e-6), mean));
  EXPECT_THAT(Out(layer.var), Pointwise(DoubleNear(1e-6), var));
  EXPECT_THAT(Out(layer(t)), Pointwise(DoubleNear(1e-5), used));
  EXPECT_FALSE(layer(Ramp({2, 3, 4})).status().ok());
  EXPECT_FALSE(layer.Train(Ramp({2, 3, 4})).status().ok());
  CheckGradient({Input({3, 2, 4}, 1)}, [&](const std::vector<Tensor>& v) {
    BatchNorm fresh(client_, 2);
    return fresh.Train(v[0]);
  });
}

TEST_F(FunctionalTest, AttentionAgainstLoops) {
  constexpr int64_t kBatch = 2, kHeads = 4, kKv = 2, kL = 3, kS = 5, kD = 4, kE = 3;
  for (const bool causal : {false, true}) {
    for (const int masked : {0, 1, 2}) {
      const auto q = Scattered(kBatch * kHeads * kL * kD, 1),
                 k = Scattered(kBatch * kKv * kS * kD, 2), v = Scattered(kBatch * kKv * kS * kE, 3),
                 added = Scattered(kL * kS, 4);
      std::vector<double> seen(kL * kS), want;
      for (size_t i = 0; i < seen.size(); ++i) seen[i] = added[i] > -1 || i % kS == 0;
      for (int64_t b = 0; b < kBatch; ++b)
        for (int64_t h = 0; h < kHeads; ++h)
          for (int64_t i = 0; i < kL; ++i) {
            const int64_t g = b * kKv + h / (kHeads / kKv);
            std::vector<double> p(kS);
            double sum = 0;
            for (int64_t j = 0; j < kS; ++j) {
              double dot = 0;
              for (int64_t d = 0; d < kD; ++d)
                dot += q[static_cast<size_t>(((b * kHeads + h) * kL + i) * kD + d)] *
                       k[static_cast<size_t>((g * kS + j) * kD + d)];
              dot /= 2;
              const auto at = static_cast<size_t>(i * kS + j);
              if (masked == 1 && seen[at] == 0) dot = -INFINITY;
              if (masked == 2) dot += added[at];
              if (causal && j > i + kS - kL) dot = -INFINITY;
              p[static_cast<size_t>(j)] = std::exp(dot), sum += std::exp(dot);
            }
            for (int64_t e = 0; e < kE; ++e) {
              double y = 0;
              for (int64_t j = 0; j < kS; ++j)
                y +=
                    p[static_cast<size_t>(j)] / sum * v[static_cast<size_t>((g * kS + j) * kE + e)];
              want.push_back(y);
            }
          }
      const Tensor mask = masked == 0   ? Tensor()
                          : masked == 1 ? In({kL, kS}, seen, Dtype::Bool)
                                        : In({kL, kS}, added, Dtype::F64);
      const Tensor y = fn::Attention(
          In({kBatch, kHeads, kL, kD}, q, Dtype::F64), In({kBatch, kKv, kS, kD}, k, Dtype::F64),
          In({kBatch, kKv, kS, kE}, v, Dtype::F64), mask, {.causal = causal});
      ASSERT_TRUE(y.status().ok()) << y.status();
      EXPECT_EQ(y.dims(), (Dims{kBatch, kHeads, kL, kE}));
      EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-12), want)) << causal << masked;
    }
  }
}

// A query without any key has the result 0, and no gradient is NaN, whether its row is used or not.
TEST_F(FunctionalTest, AttentionWithoutKeys) {
  const Tensor q = Some({1, 2, 3, 4}, 1), k = Some({1, 1, 3, 4}, 2), v = Some({1, 1, 3, 5}, 3);
  const Tensor truth = In({3, 3}, {1, 0, 1, 0, 0, 0, 1, 1, 1}, Dtype::Bool);
  const double inf = INFINITY;
  const Tensor added = In({3, 3}, {0, -inf, 0, -inf, -inf, -inf, 0, 0, 0}, Dtype::F64);
  const Tensor long_rows = Some({1, 2, 5, 4}, 1);  // causal: rows 0 and 1 of 5 see none of 3 keys
  // Of the mask row 1 sees key 2 alone, which is too late.
  const Tensor late = In({3, 3}, {1, 0, 0, 0, 0, 1, 1, 1, 1}, Dtype::Bool);
  struct Case {
    Tensor q, mask;
    bool causal;
    std::vector<int64_t> empty;
  };
  for (const Case& c : {Case{q, truth, false, {1}}, Case{q, added, false, {1}},
                        Case{long_rows, {}, true, {0, 1}}, Case{q, late, true, {1}}}) {
    const Tensor y = fn::Attention(c.q, k, v, c.mask, {.causal = c.causal});
    const auto values = Out(y);
    const int64_t rows = c.q.dims()[2];
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t row = static_cast<int64_t>(i) / 5 % rows;
      const bool none = std::find(c.empty.begin(), c.empty.end(), row) != c.empty.end();
      EXPECT_EQ(values[i] == 0, none) << i << " " << values[i];
      EXPECT_TRUE(std::isfinite(values[i]));
    }
    const Tensor targets[] = {c.q, k, v};
    for (const Tensor& loss : {y.Sum(), y.Narrow(2, rows - 1, 1).Sum()}) {
      const auto gradients = Gradient(loss, targets);
      ASSERT_TRUE(gradients.ok()) << gradients.status();
      for (const Tensor& g : *gradients) {
        for (double element : Out(g)) EXPECT_TRUE(std::isfinite(element));
      }
    }
  }
}

TEST_F(FunctionalTest, AttentionMasksOfHeads) {
  const Tensor q = Some({1, 4, 2, 3}, 1), k = Some({1, 2, 3, 3}, 2), v = Some({1, 2, 3, 3}, 3);
  const Tensor rows = Some({2, 3}, 4);
  const auto want = Out(fn::Attention(q, k, v, rows));
  EXPECT_THAT(Out(fn::Attention(q, k, v, rows.Reshape({1, 1, 2, 3}))),
              Pointwise(DoubleNear(1e-12), want));
  EXPECT_THAT(Out(fn::Attention(q, k, v, rows.Expand({1, 4, 2, 3}))),
              Pointwise(DoubleNear(1e-12), want));
  EXPECT_FALSE(fn::Attention(q, Some({1, 3, 3, 3}), Some({1, 3, 3, 3})).status().ok());
  EXPECT_FALSE(fn::Attention(q, k, Some({1, 2, 4, 3})).status().ok());
  EXPECT_FALSE(fn::Attention(q, k, v, Some({1, 3, 2, 3})).status().ok());
}

TEST_F(FunctionalTest, AttentionDropsWeights) {
  // Equal scores and values of 1: each result is the sum of the weights that stayed, 2 / 8 each.
  const Tensor q = client_.Zeros({1, 4, 32, 2}), k = client_.Zeros({1, 4, 8, 2});
  const Tensor v = client_.Ones({1, 4, 8, 1});
  double sum = 0;
  for (double y : Out(fn::Attention(q, k, v, {}, {.dropout = 0.5}))) {
    EXPECT_EQ(y * 4, std::round(y * 4));
    sum += y;
  }
  EXPECT_NEAR(sum / 128, 1, 0.15);
  EXPECT_FALSE(fn::Attention(q, k, v, {}, {.dropout = 1.5}).status().ok());
}

TEST_F(FunctionalTest, AttentionGradients) {
  CheckGradient({Input({1, 2, 2, 3}, 1), Input({1, 1, 3, 3}, 2), Input({1, 1, 3, 2}, 3)},
                [](const std::vector<Tensor>& t) {
                  return fn::Attention(t[0], t[1], t[2], {}, {.causal = true});
                });
}

TEST_F(FunctionalTest, RotatesPoints) {
  constexpr int64_t kRows = 2, kHalf = 3;
  const auto x = Scattered(2 * kRows * kHalf, 1), angle = Scattered(kRows * kHalf, 2);
  std::vector<double> c, s, want(x.size());
  for (double a : angle) c.push_back(std::cos(a)), s.push_back(std::sin(a));
  for (size_t r = 0; r < kRows; ++r)
    for (size_t i = 0; i < kHalf; ++i) {
      const double a = x[r * 6 + i], b = x[r * 6 + 3 + i], co = c[r * 3 + i], si = s[r * 3 + i];
      want[r * 6 + i] = a * co - b * si, want[r * 6 + 3 + i] = a * si + b * co;
    }
  const Tensor y = fn::Rotate(In({kRows, 6}, x, Dtype::F64), In({kRows, 3}, c, Dtype::F64),
                              In({kRows, 3}, s, Dtype::F64));
  EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-12), want));
  EXPECT_FALSE(fn::Rotate(Ramp({2, 3}), Ramp({1}), Ramp({1})).status().ok());
  CheckGradient({Input({2, 4}, 1), Input({2, 2}, 2), Input({2, 2}, 3)},
                [](const std::vector<Tensor>& t) { return fn::Rotate(t[0], t[1], t[2]); });
}

TEST_F(FunctionalTest, EmbedsRows) {
  const Tensor w = Ramp({4, 3});
  const Tensor y = fn::Embedding(w, In({2, 2}, {3, 0, 1, 3}, Dtype::I32));
  EXPECT_EQ(y.dims(), (Dims{2, 2, 3}));
  EXPECT_THAT(Out(y), ElementsAre(9, 10, 11, 0, 1, 2, 3, 4, 5, 9, 10, 11));
  EXPECT_FALSE(fn::Embedding(Ramp({4}), In({1}, {0}, Dtype::I32)).status().ok());
  CheckGradient({Input({4, 2}, 1)}, [&](const std::vector<Tensor>& t) {
    return fn::Embedding(t[0], In({3}, {2, 0, 2}, Dtype::I32));
  });
}

TEST_F(FunctionalTest, LayersOfAllKinds) {
  Conv2d conv(client_, 4, 6, 3, {.padding = {1}, .groups = 2});
  EXPECT_EQ(conv.weight.dims(), (Dims{6, 2, 3, 3}));
  EXPECT_EQ(conv(Ramp({1, 4, 5, 5})).dims(), (Dims{1, 6, 5, 5}));
  EXPECT_EQ(conv.parameters().size(), 2u);
  for (double v : Out(conv.weight)) EXPECT_LE(std::abs(v), 1 / std::sqrt(18.0));
  const Embedding words(client_, 5, 2);
  EXPECT_EQ(words(In({3}, {0, 1, 2}, Dtype::I32)).dims(), (Dims{3, 2}));
  const LayerNorm norm(client_, 4);
  EXPECT_THAT(Out(norm(Ramp({1, 4})).Sum()), Pointwise(DoubleNear(1e-6), {0.0}));
  const RmsNorm rms(client_, 2);
  EXPECT_THAT(Out(rms(In({1, 2}, {3, 3}))), Pointwise(DoubleNear(1e-5), {1.0, 1.0}));
}

}  // namespace
}  // namespace uopd::client
