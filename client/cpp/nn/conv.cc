// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "uopd/nn.h"

namespace uopd::client {
namespace {

// The weight (first, second / groups, kernel...), uniform within 1 / sqrt of the product of its
// sizes but the first one. A size that does not fit is reported by the function that uses the
// weight.
Tensor ConvWeight(Client& client, int64_t first, int64_t second, int64_t groups,
                  const Dims& kernel) {
  Dims dims = {first, second / std::max<int64_t>(1, groups)};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  Tensor weight = client.KaimingUniform(dims, std::sqrt(5.0));
  weight.RequireGrad();
  return weight;
}

Tensor ConvBias(Client& client, int64_t out, const Tensor& weight) {
  const int64_t fan = weight.status().ok() && out > 0 && weight.dims()[0] > 0
                          ? weight.size() / weight.dims()[0]
                          : 1;
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, fan)));
  Tensor bias = client.Uniform({out}, -bound, bound);
  bias.RequireGrad();
  return bias;
}

std::vector<Tensor> Both(const Tensor& weight, const Tensor& bias) {
  if (bias.state() == nullptr) return {weight};
  return {weight, bias};
}

}  // namespace

Conv::Conv(Client& client, int64_t in, int64_t out, const Dims& kernel, fn::ConvOptions o,
           bool with_bias)
    : weight(ConvWeight(client, out, in, o.groups, kernel)), options(std::move(o)) {
  if (with_bias) bias = ConvBias(client, out, weight);
}

Tensor Conv::operator()(const Tensor& x, Site site) const {
  return fn::Conv(x, weight, bias, options, site);
}

std::vector<Tensor> Conv::parameters() const { return Both(weight, bias); }

ConvTranspose::ConvTranspose(Client& client, int64_t in, int64_t out, const Dims& kernel,
                             fn::ConvTransposeOptions o, bool with_bias)
    : weight(ConvWeight(client, in, out, o.groups, kernel)), options(std::move(o)) {
  if (with_bias) bias = ConvBias(client, out, weight);
}

Tensor ConvTranspose::operator()(const Tensor& x, Site site) const {
  return fn::ConvTranspose(x, weight, bias, options, site);
}

std::vector<Tensor> ConvTranspose::parameters() const { return Both(weight, bias); }

}  // namespace uopd::client
