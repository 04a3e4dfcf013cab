// SPDX-License-Identifier: MIT
// MlpReference: a two-layer perceptron, trained with plain loops in double. Tests compare loss
// curves with it.
//
// in -> hidden (relu) -> out, softmax cross-entropy averaged over the batch, SGD or Adam. Shares no
// code with the client, the gradient rules or the daemon.
#pragma once
#include <cstdint>
#include <vector>

namespace uopd::test {

struct MlpReference {
  int64_t in = 0, hidden = 0, out = 0;
  // Row-major: w1 is (hidden, in), w2 is (out, hidden).
  std::vector<double> w1, b1, w2, b2;

  enum Rule { kSgd, kAdam };
  Rule rule = kSgd;
  double lr = 0.01;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  // Trains on one batch, x is (labels.size(), in); returns the loss before the update.
  double Step(const std::vector<double>& x, const std::vector<int>& labels);

 private:
  void Apply(std::vector<double>& p, const std::vector<double>& g, int index);

  int t_ = 0;
  std::vector<double> m_[4], v_[4];
};

}  // namespace uopd::test
