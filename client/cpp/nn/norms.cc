// SPDX-License-Identifier: MIT
#include <algorithm>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/nn.h"

namespace uopd::client {

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
  ir::UOp count = Ctx(x).Idx(1);
  for (int64_t a : axes) count = ProductOf(Ctx(x), count, ShapeOf(x)[static_cast<size_t>(a)]);
  auto move = [&](Tensor& running, const Tensor& batch, Operand factor) {
    const Tensor seen = batch.Detach(site).Reshape(running.dims(), site) * factor;
    running.Assign((running * (1 - momentum) + seen).Cast(running.dtype(), site));
  };
  move(mean, batch_mean, momentum);
  if (count.Is(ir::Op::CONST)) {
    const auto n = static_cast<double>(count.const_int());
    move(var, batch_var, momentum * (n / std::max(1.0, n - 1)));
  } else {
    const Tensor n = SizeAs(batch_var, count);
    move(var, batch_var, n / (n - 1.0).Maximum(1.0) * momentum);
  }
  return y;
}

GroupNorm::GroupNorm(Client& client, int64_t n, int64_t channels, double e)
    : weight(client.Ones({channels})), bias(client.Zeros({channels})), groups(n), epsilon(e) {
  weight.RequireGrad();
  bias.RequireGrad();
}

Tensor GroupNorm::operator()(const Tensor& x, Site site) const {
  return fn::GroupNorm(x, groups, weight, bias, epsilon, site);
}

LayerNorm::LayerNorm(Client& client, Dims shape, double e)
    : weight(client.Ones(shape)), bias(client.Zeros(shape)), epsilon(e) {
  weight.RequireGrad();
  bias.RequireGrad();
}

Tensor LayerNorm::operator()(const Tensor& x, Site site) const {
  return fn::LayerNorm(x, weight, bias, weight.rank(), epsilon, site);
}

Tensor LayerNorm2d::operator()(const Tensor& x, Site site) const {
  return LayerNorm::operator()(x.Permute({0, 2, 3, 1}, site), site).Permute({0, 3, 1, 2}, site);
}

RmsNorm::RmsNorm(Client& client, int64_t width, double e)
    : weight(client.Ones({width})), epsilon(e) {
  weight.RequireGrad();
}

Tensor RmsNorm::operator()(const Tensor& x, Site site) const {
  return fn::RmsNorm(x, weight, epsilon, site);
}

}  // namespace uopd::client
