// SPDX-License-Identifier: MIT
#include "uopd/nn.h"

#include <algorithm>
#include <cmath>

namespace uopd::client {

Linear::Linear(Client& client, int64_t in, int64_t out, bool with_bias)
    : weight(client.KaimingUniform({out, in}, std::sqrt(5.0))) {
  weight.RequireGrad();
  if (!with_bias) return;
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, in)));
  bias = client.Uniform({out}, -bound, bound);
  bias.RequireGrad();
}

Tensor Linear::operator()(const Tensor& x, Site site) const {
  const Tensor y = x.MatMul({weight.Transpose(0, 1, site), site});
  return bias.state() == nullptr ? y : y + Operand(bias, site);
}

std::vector<Tensor> Linear::parameters() const {
  if (bias.state() == nullptr) return {weight};
  return {weight, bias};
}

Embedding::Embedding(Client& client, int64_t count, int64_t width)
    : weight(client.Randn({count, width})) {
  weight.RequireGrad();
}

Tensor Embedding::operator()(const Tensor& index, Site site) const {
  return fn::Embedding(weight, index, site);
}

Sequential& Sequential::Add(Linear layer) {
  for (const Tensor& p : layer.parameters()) parameters_.push_back(p);
  AddState(state_, std::to_string(layers_.size()), layer.state_dict());
  layers_.push_back([layer = std::move(layer)](const Tensor& x) { return layer(x); });
  return *this;
}

Sequential& Sequential::Add(std::function<Tensor(const Tensor&)> function) {
  layers_.push_back(std::move(function));
  return *this;
}

Tensor Sequential::operator()(Tensor x) const {
  for (const auto& layer : layers_) x = layer(x);
  return x;
}

}  // namespace uopd::client
