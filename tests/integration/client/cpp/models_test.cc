// SPDX-License-Identifier: MIT
// Whole models, small, against loops: the graphs that the benchmarks schedule compute what they
// say.
#include "tests/support/models/models.h"

#include <algorithm>
#include <cmath>

#include "tests/unit/client/cpp/gradient_check.h"

namespace uopd::client {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;
using Row = std::vector<double>;

class ModelsTest : public OperationTest {};

// y = w x, w (out, in) row-major.
Row Times(const Row& w, const Row& x) {
  Row y(w.size() / x.size());
  for (size_t i = 0; i < w.size(); ++i) y[i / x.size()] += w[i] * x[i % x.size()];
  return y;
}

Row Normed(const Row& x, const Row& weight) {
  double squares = 0;
  for (double v : x) squares += v * v / static_cast<double>(x.size());
  Row y;
  for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] / std::sqrt(squares + 1e-5) * weight[i]);
  return y;
}

// The decoder in the words of its paper, one token at a time.
class Decoder {
 public:
  Decoder(const test::LlamaShape& s, std::vector<Row> parameters)
      : s_(s), p_(std::move(parameters)), keys_(static_cast<size_t>(s.layers)), values_(keys_) {}

  Row Logits(int token, int64_t position) {
    const auto dim = static_cast<size_t>(s_.dim);
    Row x(p_[0].begin() + static_cast<ptrdiff_t>(dim) * token,
          p_[0].begin() + static_cast<ptrdiff_t>(dim) * (token + 1));
    for (size_t layer = 0; layer < keys_.size(); ++layer) {
      const Row* w = &p_[3 + 9 * layer];
      const Row h = Normed(x, w[0]);
      const Row q = Turned(Times(w[2], h), position);
      keys_[layer].push_back(Turned(Times(w[3], h), position));
      values_[layer].push_back(Times(w[4], h));
      Add(x, Times(w[5], Attend(q, keys_[layer], values_[layer])));
      const Row f = Normed(x, w[1]);
      Row gate = Times(w[6], f);
      const Row up = Times(w[7], f);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      Add(x, Times(w[8], gate));
    }
    return Times(p_[2], Normed(x, p_[1]));
  }

 private:
  static void Add(Row& x, const Row& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }
  Row Turned(Row x, int64_t position) const {
    const auto head = static_cast<size_t>(s_.head()), half = head / 2;
    for (size_t at = 0; at < x.size(); at += head)
      for (size_t i = 0; i < half; ++i) {
        const double angle =
            static_cast<double>(position) *
            std::pow(s_.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head));
        const double a = x[at + i], b = x[at + half + i];
        x[at + i] = a * std::cos(angle) - b * std::sin(angle);
        x[at + half + i] = a * std::sin(angle) + b * std::cos(angle);
      }
    return x;
  }
  Row Attend(const Row& q, const std::vector<Row>& keys, const std::vector<Row>& values) const {
    const auto head = static_cast<size_t>(s_.head());
    Row out(q.size());
    for (size_t h = 0; h < static_cast<size_t>(s_.heads); ++h) {
      const size_t shared = h / static_cast<size_t>(s_.heads / s_.kv_heads) * head;
      Row p;
      double sum = 0;
      for (const Row& key : keys) {
        double dot = 0;
        for (size_t i = 0; i < head; ++i) dot += q[h * head + i] * key[shared + i];
        p.push_back(std::exp(dot / std::sqrt(static_cast<double>(head)))), sum += p.back();
      }
      for (size_t j = 0; j < keys.size(); ++j)
        for (size_t i = 0; i < head; ++i) out[h * head + i] += p[j] / sum * values[j][shared + i];
    }
    return out;
  }

  const test::LlamaShape s_;
  const std::vector<Row> p_;
  std::vector<std::vector<Row>> keys_, values_;
};

TEST_F(ModelsTest, LlamaDecodesStepByStep) {
  test::LlamaShape s;
  s.layers = 2, s.dim = 16, s.heads = 4, s.kv_heads = 2, s.ffn = 24, s.vocab = 11, s.context = 6;
  s.theta = 100;
  test::Llama model(client_, s);
  std::vector<Row> parameters;
  int salt = 0;
  for (Tensor p : model.parameters()) {
    parameters.push_back(Scattered(static_cast<size_t>(p.size()), ++salt));
    for (double& v : parameters.back()) v *= 0.5;
    p.Assign(In(p.dims(), parameters.back()));
  }
  Row cos, sin;
  for (int64_t at = 0; at < s.context; ++at)
    for (int64_t i = 0; i < s.head() / 2; ++i) {
      const double angle =
          static_cast<double>(at) *
          std::pow(s.theta, -2.0 * static_cast<double>(i) / static_cast<double>(s.head()));
      cos.push_back(std::cos(angle)), sin.push_back(std::sin(angle));
    }
  std::vector<Tensor> tables = model.tables();
  tables[0].Assign(In(tables[0].dims(), cos)), tables[1].Assign(In(tables[1].dims(), sin));
  Decoder reference(s, parameters);
  const uint64_t none = client_.stats().graphs_sent;
  int token = 3;
  for (int64_t position = 0; position < s.context; ++position) {
    const Tensor at = client_.Variable("position", 0, s.context - 1, position);
    const Tensor logits = model.Logits(In({1}, {static_cast<double>(token)}, Dtype::I32), at);
    const Tensor next = logits.Argmax();
    std::vector<Tensor> step = model.caches();
    step.push_back(next), step.push_back(logits);
    ASSERT_TRUE(Realize(step).ok()) << Realize(step);
    const Row want = reference.Logits(token, position);
    EXPECT_THAT(Out(logits), Pointwise(DoubleNear(2e-4), want)) << position;
    token = static_cast<int>(std::max_element(want.begin(), want.end()) - want.begin());
    EXPECT_EQ(Out(next).at(0), token);
  }
  // The first step loads weights; all others have one graph.
  EXPECT_LE(client_.stats().graphs_sent - none, 2u);
}

// A small residual network learns one batch by heart.
TEST_F(ModelsTest, ResNetLearnsItsBatch) {
  test::TrainStep train(client_, {{1, 1}, false, 4}, 3, 12, 3);
  int salt = 0;
  for (Tensor p : train.model.parameters()) {
    auto v = Scattered(static_cast<size_t>(p.size()), ++salt);
    const double scale =
        p.rank() > 1
            ? 1 / std::sqrt(static_cast<double>(p.size()) / static_cast<double>(p.dims()[0]))
            : 0;
    for (double& x : v) x = p.rank() > 1 ? x * scale : 1;
    p.Assign(In(p.dims(), v));
  }
  for (Tensor t : train.adam->state()) t.Assign(t.dims() == Dims{1} ? In({1}, {1}) : t * 0.0);
  train.images.Assign(Some(train.images.dims(), 50, Dtype::F32));
  train.labels.Assign(In({3}, {2, 0, 1}, Dtype::I32));
  // The kernels give the gradients that the graph says, in f64: the statistics of so few numbers
  // are ill-conditioned.
  const Tensor wide = train.images.Cast(Dtype::F64);
  ASSERT_TRUE(train.model.Forward(wide, true).CrossEntropy(train.labels).Backward().ok());
  std::vector<Tensor> gradients;
  for (Tensor p : train.model.parameters()) gradients.push_back(p.grad()), p.ClearGrad();
  ASSERT_TRUE(Realize(gradients).ok()) << Realize(gradients);
  daemon_->check_schedule = false;
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i) {
    auto step = train.Step();
    ASSERT_TRUE(step.ok()) << step.status();
    ASSERT_TRUE(Realize(*step).ok()) << Realize(*step);
    losses.push_back(Out(step->back()).at(0));
  }
  EXPECT_TRUE(std::isfinite(losses[0]));
  EXPECT_LT(losses.back(), losses[0]) << ::testing::PrintToString(losses);
}

TEST_F(ModelsTest, Gpt2Builds) {
  Client offline(std::make_shared<OfflineExecutor>());
  const auto out = test::Gpt2Forward(offline, 1, 8, 2);
  ASSERT_EQ(out.size(), 1u);
  ASSERT_TRUE(out[0].status().ok()) << out[0].status();
  EXPECT_EQ(out[0].dims(), (Dims{1, 8, 50257}));
}

}  // namespace
}  // namespace uopd::client
