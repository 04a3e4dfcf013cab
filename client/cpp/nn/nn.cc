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

Conv2d::Conv2d(Client& client, int64_t in, int64_t out, int64_t kernel, fn::ConvOptions o,
               bool with_bias)
    : weight(client.KaimingUniform({out, in / std::max<int64_t>(1, o.groups), kernel, kernel},
                                   std::sqrt(5.0))),
      options(std::move(o)) {
  weight.RequireGrad();
  if (!with_bias) return;
  const int64_t fan = in / std::max<int64_t>(1, options.groups) * kernel * kernel;
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan)));
  bias = client.Uniform({out}, -bound, bound);
  bias.RequireGrad();
}

Tensor Conv2d::operator()(const Tensor& x, Site site) const {
  return fn::Conv(x, weight, bias, options, site);
}

std::vector<Tensor> Conv2d::parameters() const {
  if (bias.state() == nullptr) return {weight};
  return {weight, bias};
}

BatchNorm::BatchNorm(Client& client, int64_t channels, double e, double m)
    : weight(client.Ones({channels})),
      bias(client.Zeros({channels})),
      mean(client.Zeros({channels})),
      var(client.Ones({channels})),
      epsilon(e),
      momentum(m) {
  weight.RequireGrad();
  bias.RequireGrad();
}

Tensor BatchNorm::operator()(const Tensor& x, Site site) const {
  return fn::BatchNorm(x, mean, var, weight, bias, epsilon, site);
}

Tensor BatchNorm::Train(const Tensor& x, Site site) {
  Dims axes;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != 1) axes.push_back(i);
  }
  // The same as fn::BatchNorm, but the variance and the result share the differences from the mean.
  auto column = [&](const Tensor& t) {
    Dims to(x.dims().size(), 1);
    to[1] = t.size();
    return t.Reshape(to, site);
  };
  if (!x.status().ok() || x.rank() < 2 || x.dims()[1] != mean.size())
    return fn::BatchNorm(x, mean, var, weight, bias, epsilon, site);  // gives the error
  const Tensor batch_mean = x.Mean(axes, true, site);
  const Tensor off = Operand(x, site) - batch_mean;
  const Tensor batch_var = off.Square(site).Mean(axes, true, site);
  const Tensor scale = (batch_var + epsilon).Rsqrt(site) * column(weight);
  const Tensor y = off * scale + column(bias);
  // The running variance estimates that of the population: n / (n - 1) times that of the batch.
  const auto n =
      static_cast<double>(x.size()) / static_cast<double>(std::max<int64_t>(1, x.dims()[1]));
  const double unbiased = n / std::max(1.0, n - 1);
  auto move = [&](Tensor& running, const Tensor& batch, double factor) {
    const Tensor seen = batch.Detach(site).Reshape(running.dims(), site) * (momentum * factor);
    running.Assign((running * (1 - momentum) + seen).Cast(running.dtype(), site));
  };
  move(mean, batch_mean, 1);
  move(var, batch_var, unbiased);
  return y;
}

LayerNorm::LayerNorm(Client& client, int64_t width, double e)
    : weight(client.Ones({width})), bias(client.Zeros({width})), epsilon(e) {
  weight.RequireGrad();
  bias.RequireGrad();
}

Tensor LayerNorm::operator()(const Tensor& x, Site site) const {
  return fn::LayerNorm(x, weight, bias, 1, epsilon, site);
}

RmsNorm::RmsNorm(Client& client, int64_t width, double e)
    : weight(client.Ones({width})), epsilon(e) {
  weight.RequireGrad();
}

Tensor RmsNorm::operator()(const Tensor& x, Site site) const {
  return fn::RmsNorm(x, weight, epsilon, site);
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
