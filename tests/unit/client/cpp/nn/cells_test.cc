// SPDX-License-Identifier: MIT
// Group normalisation and recurrent cells against plain loops in double, and by central
// differences.
#include <cmath>

#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/recurrent.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Values = std::vector<double>;

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

class CellsTest : public OperationTest {
 protected:
  static constexpr size_t kN = 3, kIn = 4, kHidden = 5;
  // w x + b of one gate unit.
  static double Row(const Values& w, const Values& b, const Values& x, size_t row, size_t n,
                    size_t width) {
    double sum = b[row];
    for (size_t i = 0; i < width; ++i) sum += w[row * width + i] * x[n * width + i];
    return sum;
  }
  struct Numbers {
    Values x, h, c, wx, wh, bx, bh;
    explicit Numbers(size_t k)
        : x(Scattered(kN * kIn, 1)),
          h(Scattered(kN * kHidden, 2)),
          c(Scattered(kN * kHidden, 3)),
          wx(Scattered(k * kHidden * kIn, 4)),
          wh(Scattered(k * kHidden * kHidden, 5)),
          bx(Scattered(k * kHidden, 6)),
          bh(Scattered(k * kHidden, 7)) {}
  };
  static Dims Shape(size_t a, size_t b) {
    return {static_cast<int64_t>(a), static_cast<int64_t>(b)};
  }
};

TEST_F(CellsTest, LstmAgainstLoops) {
  const Numbers v(4);
  Values h, c;
  for (size_t n = 0; n < kN; ++n)
    for (size_t u = 0; u < kHidden; ++u) {
      double gate[4];
      for (size_t k = 0; k < 4; ++k)
        gate[k] = Row(v.wx, v.bx, v.x, k * kHidden + u, n, kIn) +
                  Row(v.wh, v.bh, v.h, k * kHidden + u, n, kHidden);
      c.push_back(SigmoidOf(gate[1]) * v.c[n * kHidden + u] +
                  SigmoidOf(gate[0]) * std::tanh(gate[2]));
      h.push_back(SigmoidOf(gate[3]) * std::tanh(c.back()));
    }
  auto in = [&](size_t a, size_t b, const Values& values) {
    return In(Shape(a, b), values, Dtype::F64);
  };
  const auto y =
      fn::LstmCell(in(kN, kIn, v.x), {in(kN, kHidden, v.h), in(kN, kHidden, v.c)},
                   in(4 * kHidden, kIn, v.wx), in(4 * kHidden, kHidden, v.wh),
                   In({4 * kHidden}, v.bx, Dtype::F64), In({4 * kHidden}, v.bh, Dtype::F64));
  EXPECT_THAT(Out(y.h), Pointwise(DoubleNear(1e-12), h));
  EXPECT_THAT(Out(y.c), Pointwise(DoubleNear(1e-12), c));
}

TEST_F(CellsTest, GruAgainstLoops) {
  const Numbers v(3);
  Values h;
  for (size_t n = 0; n < kN; ++n)
    for (size_t u = 0; u < kHidden; ++u) {
      double a[3], b[3];
      for (size_t k = 0; k < 3; ++k) {
        a[k] = Row(v.wx, v.bx, v.x, k * kHidden + u, n, kIn);
        b[k] = Row(v.wh, v.bh, v.h, k * kHidden + u, n, kHidden);
      }
      const double update = SigmoidOf(a[1] + b[1]);
      const double fresh = std::tanh(a[2] + SigmoidOf(a[0] + b[0]) * b[2]);
      h.push_back((1 - update) * fresh + update * v.h[n * kHidden + u]);
    }
  auto in = [&](size_t a, size_t b, const Values& values) {
    return In(Shape(a, b), values, Dtype::F64);
  };
  const Tensor y = fn::GruCell(in(kN, kIn, v.x), in(kN, kHidden, v.h), in(3 * kHidden, kIn, v.wx),
                               in(3 * kHidden, kHidden, v.wh), In({3 * kHidden}, v.bx, Dtype::F64),
                               In({3 * kHidden}, v.bh, Dtype::F64));
  EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-12), h));
}

TEST_F(CellsTest, Gradients) {
  CheckGradient({Input({2, 2}, 1), Input({2, 2}, 2), Input({2, 2}, 3), Input({8, 2}, 4),
                 Input({8, 2}, 5), Input({8}, 6), Input({8}, 7)},
                [](const std::vector<Tensor>& t) {
                  const auto s = fn::LstmCell(t[0], {t[1], t[2]}, t[3], t[4], t[5], t[6]);
                  return s.h + s.c * 0.5;
                });
  CheckGradient(
      {Input({2, 2}, 1), Input({2, 2}, 2), Input({6, 2}, 3), Input({6, 2}, 4), Input({6}, 5),
       Input({6}, 6)},
      [](const std::vector<Tensor>& t) { return fn::GruCell(t[0], t[1], t[2], t[3], t[4], t[5]); });
  CheckGradient({Input({2, 4, 3}, 1), Input({4}, 2), Input({4}, 3)},
                [](const std::vector<Tensor>& t) { return fn::GroupNorm(t[0], 2, t[1], t[2]); });
}

TEST_F(CellsTest, CellsSayWhatDoesNotFit) {
  const auto s =
      fn::LstmCell(Ramp({2, 3}), {Ramp({2, 4}), Ramp({2, 5})}, Ramp({16, 3}), Ramp({16, 4}));
  EXPECT_THAT(StatusText(s.c.status()), HasSubstr("states (2, 4) and (2, 5)"));
  const Tensor g = fn::GruCell(Ramp({2, 3}), Ramp({2, 4}), Ramp({12, 3}), Ramp({16, 4}));
  EXPECT_THAT(StatusText(g.status()), HasSubstr("weights (12, 3) and (16, 4)"));
  EXPECT_EQ(fn::GruCell(Ramp({0, 3}), Ramp({0, 4}), Ramp({12, 3}), Ramp({12, 4})).dims(),
            (Dims{0, 4}));
}

TEST_F(CellsTest, SequencesAreCellsInALoop) {
  const Tensor x = Some({2, 4, 3}, 1, Dtype::F32);
  const Lstm lstm(client_, 3, 5, 2);
  const Gru gru(client_, 3, 5, 2);
  EXPECT_EQ(lstm.parameters().size(), 8u);
  const std::vector<fn::LstmState> start = {
      {Some({2, 5}, 2, Dtype::F32), Some({2, 5}, 3, Dtype::F32)},
      {Some({2, 5}, 4, Dtype::F32), Some({2, 5}, 5, Dtype::F32)}};
  const std::vector<Tensor> start_gru = {start[0].h, start[1].h};
  for (const bool given : {false, true}) {
    std::vector<fn::LstmState> at = start;
    std::vector<Tensor> at_gru = start_gru;
    if (!given) {
      for (auto& s : at) s = {client_.Zeros({2, 5}), client_.Zeros({2, 5})};
      for (auto& s : at_gru) s = client_.Zeros({2, 5});
    }
    std::vector<Tensor> y, y_gru;
    for (int64_t step = 0; step < 4; ++step) {
      Tensor in = x.Select(1, step), in_gru = in;
      for (size_t layer = 0; layer < 2; ++layer) {
        const CellWeights &l = lstm.layers[layer], &g = gru.layers[layer];
        at[layer] = fn::LstmCell(in, at[layer], l.weight_x, l.weight_h, l.bias_x, l.bias_h);
        in = at[layer].h;
        at_gru[layer] =
            fn::GruCell(in_gru, at_gru[layer], g.weight_x, g.weight_h, g.bias_x, g.bias_h);
        in_gru = at_gru[layer];
      }
      y.push_back(in);
      y_gru.push_back(in_gru);
    }
    const auto got = lstm(x, given ? start : std::vector<fn::LstmState>());
    EXPECT_THAT(Out(got.y), Pointwise(DoubleNear(1e-6), Out(Stack(y, 1))));
    EXPECT_THAT(Out(got.states[1].c), Pointwise(DoubleNear(1e-6), Out(at[1].c)));
    const auto got_gru = gru(x, given ? start_gru : std::vector<Tensor>());
    EXPECT_THAT(Out(got_gru.y), Pointwise(DoubleNear(1e-6), Out(Stack(y_gru, 1))));
    EXPECT_THAT(Out(got_gru.states[0]), Pointwise(DoubleNear(1e-6), Out(at_gru[0])));
  }
  EXPECT_THAT(StatusText(lstm(x, {start[0]}).y.status()), HasSubstr("1 states for 2 layers"));
  EXPECT_FALSE(gru(Ramp({2, 3})).y.status().ok());
  EXPECT_FALSE(gru(Ramp({2, 0, 3})).y.status().ok());
  // A cell starts with zeros.
  const LstmCell cell(client_, 3, 5);
  EXPECT_EQ(Out(cell(x.Select(1, 0)).h),
            Out(cell(x.Select(1, 0), {client_.Zeros({2, 5}), client_.Zeros({2, 5})}).h));
  EXPECT_EQ(GruCell(client_, 3, 5)(x.Select(1, 0)).dims(), (Dims{2, 5}));
}

TEST_F(CellsTest, GradientsThroughSequences) {
  CheckGradient({Input({2, 3, 2}, 1), Input({8, 2}, 2), Input({8, 2}, 3), Input({8}, 4)},
                [&](const std::vector<Tensor>& t) {
                  const Tensor zero = client_.Zeros({2, 2}, Dtype::F64);
                  const auto s = fn::Lstm(t[0], {zero, zero}, t[1], t[2], t[3]);
                  return s.y.Sum({1}) + s.last.c;
                });
  CheckGradient({Input({2, 3, 2}, 1), Input({2, 2}, 5), Input({6, 2}, 2), Input({6, 2}, 3)},
                [](const std::vector<Tensor>& t) { return fn::Gru(t[0], t[1], t[2], t[3]).y; });
}

TEST_F(CellsTest, GroupNormAgainstLoops) {
  constexpr size_t kC = 6, kArea = 5;
  const Values x = Scattered(2 * kC * kArea, 1), w = Scattered(kC, 2), b = Scattered(kC, 3);
  for (size_t groups : {1u, 2u, 3u, 6u}) {
    SCOPED_TRACE(groups);
    const size_t block = kC / groups * kArea;
    Values want(x.size());
    for (size_t at = 0; at < x.size(); at += block) {
      double mean = 0, var = 0;
      for (size_t i = at; i < at + block; ++i) mean += x[i] / static_cast<double>(block);
      for (size_t i = at; i < at + block; ++i)
        var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(block);
      for (size_t i = at; i < at + block; ++i) {
        const size_t c = i / kArea % kC;
        want[i] = (x[i] - mean) / std::sqrt(var + 1e-5) * w[c] + b[c];
      }
    }
    const Tensor t = In({2, kC, kArea}, x, Dtype::F64), tw = In({kC}, w, Dtype::F64),
                 tb = In({kC}, b, Dtype::F64);
    EXPECT_THAT(Out(fn::GroupNorm(t, static_cast<int64_t>(groups), tw, tb)),
                Pointwise(DoubleNear(1e-12), want));
    if (groups == kC) {
      EXPECT_THAT(Out(fn::InstanceNorm(t, tw, tb)), Pointwise(DoubleNear(1e-12), want));
    }
  }
  EXPECT_FALSE(fn::GroupNorm(Ramp({2, 6, 5}), 4).status().ok());
  EXPECT_FALSE(fn::GroupNorm(Ramp({2, 6, 5}), 2, Ramp({5})).status().ok());
  EXPECT_EQ(fn::GroupNorm(Ramp({0, 6, 5}), 2).dims(), (Dims{0, 6, 5}));
}

}  // namespace
}  // namespace uopd::client
