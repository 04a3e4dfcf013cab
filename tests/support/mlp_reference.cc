// SPDX-License-Identifier: MIT
#include "tests/support/mlp_reference.h"

#include <algorithm>
#include <cmath>

namespace uopd::test {

double MlpReference::Step(const std::vector<double>& x, const std::vector<int>& labels) {
  const auto batch = static_cast<int64_t>(labels.size());
  std::vector<double> g1(w1.size()), gb1(b1.size()), g2(w2.size()), gb2(b2.size());
  double loss = 0;
  for (int64_t n = 0; n < batch; ++n) {
    std::vector<double> pre(hidden), act(hidden), score(out), d_score(out);
    for (int64_t j = 0; j < hidden; ++j) {
      pre[j] = b1[j];
      for (int64_t i = 0; i < in; ++i) pre[j] += w1[j * in + i] * x[n * in + i];
      act[j] = std::max(pre[j], 0.0);
    }
    double top = -INFINITY, sum = 0;
    for (int64_t k = 0; k < out; ++k) {
      score[k] = b2[k];
      for (int64_t j = 0; j < hidden; ++j) score[k] += w2[k * hidden + j] * act[j];
      top = std::max(top, score[k]);
    }
    for (int64_t k = 0; k < out; ++k) sum += std::exp(score[k] - top);
    loss -= score[labels[n]] - top - std::log(sum);
    for (int64_t k = 0; k < out; ++k) {
      d_score[k] =
          (std::exp(score[k] - top) / sum - (k == labels[n] ? 1 : 0)) / static_cast<double>(batch);
      gb2[k] += d_score[k];
      for (int64_t j = 0; j < hidden; ++j) g2[k * hidden + j] += d_score[k] * act[j];
    }
    for (int64_t j = 0; j < hidden; ++j) {
      if (pre[j] <= 0) continue;
      double d = 0;
      for (int64_t k = 0; k < out; ++k) d += d_score[k] * w2[k * hidden + j];
      gb1[j] += d;
      for (int64_t i = 0; i < in; ++i) g1[j * in + i] += d * x[n * in + i];
    }
  }
  ++t_;
  Apply(w1, g1, 0), Apply(b1, gb1, 1), Apply(w2, g2, 2), Apply(b2, gb2, 3);
  return loss / static_cast<double>(batch);
}

void MlpReference::Apply(std::vector<double>& p, const std::vector<double>& g, int index) {
  std::vector<double>&m = m_[index], &v = v_[index];
  m.resize(p.size());
  v.resize(p.size());
  for (size_t i = 0; i < p.size(); ++i) {
    if (rule == kSgd) {
      p[i] -= lr * g[i];
      continue;
    }
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    const double m_hat = m[i] / (1 - std::pow(beta1, t_)), v_hat = v[i] / (1 - std::pow(beta2, t_));
    p[i] -= lr * m_hat / (std::sqrt(v_hat) + epsilon);
  }
}

}  // namespace uopd::test
