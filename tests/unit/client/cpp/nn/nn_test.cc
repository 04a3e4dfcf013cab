// SPDX-License-Identifier: MIT
// Layers against plain loops over their own parameters, in double, and by central differences.
#include <cmath>

#include "tests/unit/client/cpp/gradient_check.h"
#include "uopd/nn.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;
using Values = std::vector<double>;

class LayersTest : public OperationTest {
 protected:
  // Gives a parameter values that are no special case.
  void Scatter(Tensor& t, int salt) { t.Assign(Some(t.dims(), salt, t.dtype())); }
  static double At(const Values& v, const Dims& dims, std::initializer_list<int64_t> index) {
    int64_t at = 0;
    size_t axis = 0;
    for (const int64_t i : index) at = at * dims[axis++] + i;
    return v[static_cast<size_t>(at)];
  }
};

TEST_F(LayersTest, ConvolutionsOfOneTwoAndThreeAxes) {
  const Tensor x1 = Some({2, 4, 7}, 1, Dtype::F32), x3 = Some({1, 2, 3, 4, 5}, 2, Dtype::F32);
  const Conv1d one(client_, 4, 6, 3, {.stride = {2}, .padding = {1}, .groups = 2});
  EXPECT_EQ(one.weight.dims(), (Dims{6, 2, 3}));
  const Values x = Out(x1), w = Out(one.weight), b = Out(one.bias);
  Values want;
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t o = 0; o < 6; ++o)
      for (int64_t i = 0; i < 4; ++i) {
        double sum = b[static_cast<size_t>(o)];
        for (int64_t c = 0; c < 2; ++c)
          for (int64_t k = 0; k < 3; ++k) {
            const int64_t at = i * 2 + k - 1;
            if (at >= 0 && at < 7)
              sum += At(x, {2, 4, 7}, {n, o / 3 * 2 + c, at}) * At(w, {6, 2, 3}, {o, c, k});
          }
        want.push_back(sum);
      }
  const Tensor y = one(x1);
  EXPECT_EQ(y.dims(), (Dims{2, 6, 4}));
  EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-5), want));

  const Conv3d three(client_, 2, 1, 2, {}, false);
  EXPECT_EQ(three.bias.state(), nullptr);
  const Values v = Out(x3), u = Out(three.weight);
  want.clear();
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 4; ++k) {
        double sum = 0;
        for (int64_t c = 0; c < 2; ++c)
          for (int64_t p = 0; p < 8; ++p)
            sum += At(v, {1, 2, 3, 4, 5}, {0, c, i + p / 4, j + p / 2 % 2, k + p % 2}) *
                   At(u, {1, 2, 2, 2, 2}, {0, c, p / 4, p / 2 % 2, p % 2});
        want.push_back(sum);
      }
  EXPECT_THAT(Out(three(x3)), Pointwise(DoubleNear(1e-5), want));
  for (double value : Out(Conv2d(client_, 3, 5, 4).weight))
    EXPECT_LE(std::abs(value), 1 / std::sqrt(48.0));
}

TEST_F(LayersTest, TransposedConvolutionSpreadsEachElement) {
  const Dims in = {2, 4, 3, 2}, out = {2, 6, 6, 4};
  const ConvTranspose layer(
      client_, 4, 6, {3, 2},
      {.stride = {2}, .padding = {1, 0}, .output_padding = {1, 0}, .groups = 2});
  EXPECT_EQ(layer.weight.dims(), (Dims{4, 3, 3, 2}));
  const Tensor x = Some(in, 1, Dtype::F32);
  const Values v = Out(x), w = Out(layer.weight), b = Out(layer.bias);
  Values want(2 * 6 * 6 * 4);
  const auto at = [&](int64_t n, int64_t o, int64_t i, int64_t j) -> double& {
    return want[static_cast<size_t>(((n * 6 + o) * 6 + i) * 4 + j)];
  };
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t o = 0; o < 6; ++o)
      for (int64_t i = 0; i < 24; ++i) at(n, o, i / 4, i % 4) = b[static_cast<size_t>(o)];
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 2; ++j)
          for (int64_t o = 0; o < 3; ++o)
            for (int64_t p = 0; p < 3; ++p)
              for (int64_t q = 0; q < 2; ++q) {
                const int64_t row = i * 2 + p - 1, column = j * 2 + q;
                if (row < 0 || row >= 6 || column >= 4) continue;
                at(n, c / 2 * 3 + o, row, column) +=
                    At(v, in, {n, c, i, j}) * At(w, {4, 3, 3, 2}, {c, o, p, q});
              }
  }
  const Tensor y = layer(x);
  EXPECT_EQ(y.dims(), out);
  EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-5), want));
}

TEST_F(LayersTest, BatchNormOfAnyRankTrainsAndMovesItsStatistics) {
  for (const Dims& dims : {Dims{5, 3}, Dims{4, 3, 5}, Dims{2, 3, 4, 2}, Dims{2, 3, 1, 2, 3}}) {
    BatchNorm norm(client_, 3);
    Scatter(norm.weight, 1);
    Scatter(norm.bias, 2);
    Values mean(3), var(3, 1.0);
    const int64_t area = ir::Product(dims) / (dims[0] * 3);
    const auto channel = [&](size_t i) { return i / static_cast<size_t>(area) % 3; };
    for (int step = 0; step < 3; ++step) {
      const Tensor x = Some(dims, 10 + step, Dtype::F32);
      const Values v = Out(x), w = Out(norm.weight), b = Out(norm.bias);
      const double n = static_cast<double>(v.size()) / 3;
      Values m(3), s(3), want;
      for (size_t i = 0; i < v.size(); ++i) m[channel(i)] += v[i] / n;
      for (size_t i = 0; i < v.size(); ++i)
        s[channel(i)] += (v[i] - m[channel(i)]) * (v[i] - m[channel(i)]) / n;
      for (size_t i = 0; i < v.size(); ++i) {
        const size_t c = channel(i);
        want.push_back((v[i] - m[c]) / std::sqrt(s[c] + 1e-5) * w[c] + b[c]);
      }
      for (size_t c = 0; c < 3; ++c) {
        mean[c] += 0.1 * (m[c] - mean[c]);
        var[c] += 0.1 * (s[c] * n / (n - 1) - var[c]);
      }
      const Tensor y = norm.Train(x);
      EXPECT_THAT(Out(y), Pointwise(DoubleNear(1e-4), want));
      EXPECT_THAT(Out(norm.mean), Pointwise(DoubleNear(1e-5), mean));
      EXPECT_THAT(Out(norm.var), Pointwise(DoubleNear(1e-5), var));
    }
    const Tensor x = Some(dims, 20, Dtype::F32);
    Values want = Out(x);
    const Values w = Out(norm.weight), b = Out(norm.bias);
    for (size_t i = 0; i < want.size(); ++i) {
      const size_t c = channel(i);
      want[i] = (want[i] - mean[c]) / std::sqrt(var[c] + 1e-5) * w[c] + b[c];
    }
    EXPECT_THAT(Out(norm(x)), Pointwise(DoubleNear(1e-4), want));
  }
  BatchNorm norm(client_, 2);
  CheckGradient({Input({3, 2, 2}, 1), Input({2}, 2), Input({2}, 3)},
                [&](const std::vector<Tensor>& t) {
                  norm.weight = t[1], norm.bias = t[2];
                  return norm.Train(t[0]);
                });
}

TEST_F(LayersTest, LayerNormsOfSeveralAxesAndOfChannels) {
  LayerNorm norm(client_, Dims{2, 3});
  Scatter(norm.weight, 1);
  Scatter(norm.bias, 2);
  LayerNorm2d channels(client_, 4);
  Scatter(channels.weight, 3);
  const Tensor x = Some({5, 2, 3}, 4, Dtype::F32), images = Some({2, 4, 2, 3}, 5, Dtype::F32);
  const auto normed = [](const Values& v, double epsilon) {
    double mean = 0, var = 0;
    const auto n = static_cast<double>(v.size());
    for (double e : v) mean += e / n;
    for (double e : v) var += (e - mean) * (e - mean) / n;
    Values out;
    for (double e : v) out.push_back((e - mean) / std::sqrt(var + epsilon));
    return out;
  };
  const Values v = Out(x), w = Out(norm.weight), b = Out(norm.bias);
  Values want;
  for (size_t row = 0; row < 5; ++row) {
    const Values part = normed(Values(v.begin() + static_cast<ptrdiff_t>(row) * 6,
                                      v.begin() + static_cast<ptrdiff_t>(row + 1) * 6),
                               1e-5);
    for (size_t i = 0; i < 6; ++i) want.push_back(part[i] * w[i] + b[i]);
  }
  EXPECT_THAT(Out(norm(x)), Pointwise(DoubleNear(1e-5), want));

  const Values pixels = Out(images), scale = Out(channels.weight);
  want.assign(pixels.size(), 0);
  for (size_t n = 0; n < 2; ++n)
    for (size_t p = 0; p < 6; ++p) {
      Values column;
      for (size_t c = 0; c < 4; ++c) column.push_back(pixels[(n * 4 + c) * 6 + p]);
      column = normed(column, 1e-5);
      for (size_t c = 0; c < 4; ++c) want[(n * 4 + c) * 6 + p] = column[c] * scale[c];
    }
  EXPECT_THAT(Out(channels(images)), Pointwise(DoubleNear(1e-5), want));
  CheckGradient({Input({1, 2, 2, 2}, 1), Input({2}, 2)}, [&](const std::vector<Tensor>& t) {
    LayerNorm2d layer(client_, 2);
    layer.weight = t[1];
    return layer(t[0]);
  });
}

TEST_F(LayersTest, GroupAndInstanceNormHaveTheirChannels) {
  GroupNorm groups(client_, 2, 4);
  InstanceNorm instances(client_, 4);
  for (Tensor* t : {&groups.weight, &groups.bias}) Scatter(*t, 3);
  const Tensor x = Some({2, 4, 3}, 1, Dtype::F32);
  const auto by_function = [&](const Tensor& weight, const Tensor& bias, int64_t n) {
    return Out(fn::GroupNorm(x, n, weight, bias));  // which cells_test.cc checks by loops
  };
  EXPECT_EQ(Out(groups(x)), by_function(groups.weight, groups.bias, 2));
  EXPECT_EQ(Out(instances(x)), by_function(instances.weight, instances.bias, 4));
  EXPECT_NE(Out(groups(x)), Out(instances(x)));
}

// Attention in the words of its paper.
TEST_F(LayersTest, MultiHeadAttentionAgainstLoops) {
  constexpr size_t kWidth = 4, kHeads = 2, kHead = kWidth / kHeads, kN = 2, kL = 3, kS = 5;
  const MultiHeadAttention layer(client_, kWidth, kHeads);
  Tensor in_bias = layer.weights.in_bias, out_bias = layer.weights.out_bias;
  Scatter(in_bias, 7);
  Scatter(out_bias, 8);
  const Tensor q = Some({kN, kL, kWidth}, 1, Dtype::F32), k = Some({kN, kS, kWidth}, 2, Dtype::F32),
               v = Some({kN, kS, kWidth}, 3, Dtype::F32);
  const Values w = Out(layer.weights.in), wb = Out(in_bias), o = Out(layer.weights.out),
               ob = Out(out_bias);
  // Row `row` of the projection `third` of x.
  const auto project = [&](const Values& x, size_t row, size_t third) {
    Values out;
    for (size_t i = 0; i < kWidth; ++i) {
      double sum = wb[third * kWidth + i];
      for (size_t j = 0; j < kWidth; ++j)
        sum += w[(third * kWidth + i) * kWidth + j] * x[row * kWidth + j];
      out.push_back(sum);
    }
    return out;
  };
  const Values qs = Out(q), ks = Out(k), vs = Out(v);
  for (const bool causal : {false, true}) {
    Values want;
    for (size_t n = 0; n < kN; ++n)
      for (size_t l = 0; l < kL; ++l) {
        const Values query = project(qs, n * kL + l, 0);
        Values joined(kWidth);
        for (size_t h = 0; h < kHeads; ++h) {
          const size_t seen = causal ? l + kS - kL + 1 : kS;
          Values weight;
          double total = 0;
          for (size_t s = 0; s < seen; ++s) {
            const Values key = project(ks, n * kS + s, 1);
            double score = 0;
            for (size_t i = 0; i < kHead; ++i) score += query[h * kHead + i] * key[h * kHead + i];
            weight.push_back(std::exp(score / std::sqrt(static_cast<double>(kHead))));
            total += weight.back();
          }
          for (size_t s = 0; s < seen; ++s) {
            const Values value = project(vs, n * kS + s, 2);
            for (size_t i = 0; i < kHead; ++i)
              joined[h * kHead + i] += weight[s] / total * value[h * kHead + i];
          }
        }
        for (size_t i = 0; i < kWidth; ++i) {
          double sum = ob[i];
          for (size_t j = 0; j < kWidth; ++j) sum += o[i * kWidth + j] * joined[j];
          want.push_back(sum);
        }
      }
    EXPECT_THAT(Out(layer(q, k, v, {}, {.causal = causal})), Pointwise(DoubleNear(1e-4), want));
  }
  EXPECT_EQ(layer.parameters().size(), 4u);
  EXPECT_EQ(MultiHeadAttention(client_, 4, 2, false).parameters().size(), 2u);
  EXPECT_THAT(StatusText(layer(q, k, Some({kN, kS, 3}, 1, Dtype::F32)).status()),
              HasSubstr("values (2, 5, 3), 2 heads"));
  EXPECT_FALSE(MultiHeadAttention(client_, 4, 3)(q, k, v).status().ok());
}

TEST_F(LayersTest, GradientOfMultiHeadAttention) {
  CheckGradient({Input({1, 2, 2}, 1), Input({1, 3, 2}, 2), Input({1, 3, 2}, 3), Input({6, 2}, 4),
                 Input({6}, 5), Input({2, 2}, 6), Input({2}, 7)},
                [](const std::vector<Tensor>& t) {
                  return fn::MultiHeadAttention(t[0], t[1], t[2], 2, {t[3], t[4], t[5], t[6]});
                });
}

}  // namespace
}  // namespace uopd::client
