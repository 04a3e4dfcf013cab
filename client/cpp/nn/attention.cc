// SPDX-License-Identifier: MIT
#include <cmath>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/nn.h"

namespace uopd::client {
namespace fn {

Tensor MultiHeadAttention(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
                          const MultiHeadWeights& weights, const Tensor& mask,
                          const AttentionOptions& options, Site site) {
  constexpr std::string_view kName = "MultiHeadAttention";
  if (auto error = FirstError(kName, {&q, &k, &v, &weights.in, &weights.out}, site)) return *error;
  const int64_t width = q.rank() == 3 ? q.dims()[2] : 0;
  bool fits = width > 0 && heads > 0 && width % heads == 0 && k.rank() == 3 &&
              k.dims()[0] == q.dims()[0] && k.dims()[2] == width && v.dims() == k.dims() &&
              weights.in.dims() == Dims{3 * width, width} &&
              weights.out.dims() == Dims{width, width};
  for (const auto& [bias, size] :
       {std::pair(&weights.in_bias, 3 * width), std::pair(&weights.out_bias, width)}) {
    if (!Has(*bias)) continue;
    if (auto error = FirstError(kName, {&q, bias}, site)) return *error;
    fits = fits && bias->dims() == Dims{size};
  }
  if (!fits) {
    return Wrong(q, kName, site,
                 Cat("queries ", Text(q.dims()), ", keys ", Text(k.dims()), ", values ",
                     Text(v.dims()), ", ", heads, " heads, weights ", Text(weights.in.dims()),
                     " and ", Text(weights.out.dims())));
  }
  // One of the three projections, as (n, heads, length, width / heads).
  auto heads_of = [&](const Tensor& x, int64_t third) {
    const Tensor w = weights.in.Narrow(0, third * width, width, site).Transpose(0, 1, site);
    Tensor y = x.MatMul({w, site});
    if (Has(weights.in_bias))
      y = Operand(y, site) + weights.in_bias.Narrow(0, third * width, width, site);
    if (!y.status().ok()) return y;
    ir::SymbolicDims split = SizesOf(x);
    split[2] = Ctx(x).Idx(heads);
    split.push_back(Ctx(x).Idx(width / heads));
    return ReshapeTo(y, split, kName, site).Transpose(1, 2, site);
  };
  Tensor seen = Attention(heads_of(q, 0), heads_of(k, 1), heads_of(v, 2), mask, options, site);
  if (!seen.status().ok()) return seen;
  const Tensor y = ReshapeTo(seen.Transpose(1, 2, site), SizesOf(q), kName, site)
                       .MatMul({weights.out.Transpose(0, 1, site), site});
  return Has(weights.out_bias) ? Operand(y, site) + weights.out_bias : y;
}

}  // namespace fn

MultiHeadAttention::MultiHeadAttention(Client& client, int64_t width, int64_t n, bool with_bias)
    : weights{.in = client.GlorotUniform({3 * width, width}),
              .out = client.KaimingUniform({width, width}, std::sqrt(5.0))},
      heads(n) {
  if (with_bias) {
    weights.in_bias = client.Zeros({3 * width});
    weights.out_bias = client.Zeros({width});
  }
  for (Tensor& t : parameters()) t.RequireGrad();
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Tensor& mask, const fn::AttentionOptions& options,
                                      Site site) const {
  return fn::MultiHeadAttention(query, key, value, heads, weights, mask, options, site);
}

std::vector<Tensor> MultiHeadAttention::parameters() const {
  if (!fn::Has(weights.in_bias)) return {weights.in, weights.out};
  return {weights.in, weights.in_bias, weights.out, weights.out_bias};
}

StateDict MultiHeadAttention::state_dict() const {
  return {{"in_proj_weight", weights.in},
          {"in_proj_bias", weights.in_bias},
          {"out_proj.weight", weights.out},
          {"out_proj.bias", weights.out_bias}};
}

}  // namespace uopd::client
