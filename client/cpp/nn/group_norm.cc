// SPDX-License-Identifier: MIT
#include "client/cpp/ops/common.h"
#include "uopd/functional.h"

namespace uopd::client::fn {

Tensor GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                 double epsilon, Site site) {
  if (auto error = Refused("GroupNorm", {&x}, site)) return *error;
  if (x.rank() < 2 || groups < 1 || x.dims()[1] % groups != 0)
    return Wrong(x, "GroupNorm", site, Cat(groups, " groups for shape ", Text(x.dims())));
  for (const Tensor* t : {&weight, &bias}) {
    if (!Has(*t)) continue;
    if (auto error = Refused("GroupNorm", {&x, t}, site)) return *error;
    if (t->dims() != Dims{x.dims()[1]}) {
      return Wrong(x, "GroupNorm", site,
                   Cat("a parameter of shape ", Text(t->dims()), " for shape ", Text(x.dims())));
    }
  }
  if (x.size() == 0) return InWide("GroupNorm", x, site, [](const Tensor& v) { return v; });
  Dims column(x.dims().size(), 1);
  column[1] = x.dims()[1];
  return InWide("GroupNorm", x, site, [&](const Tensor& v) {
    const Dims split = {x.dims()[0], groups, x.size() / (x.dims()[0] * groups)};
    Tensor y = LayerNorm(v.Reshape(split, site), {}, {}, 1, epsilon, site).Reshape(x.dims(), site);
    if (Has(weight)) y = y * weight.Reshape(column, site);
    if (Has(bias)) y = y + bias.Reshape(column, site);
    return y;
  });
}

Tensor InstanceNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                    Site site) {
  if (auto error = Refused("InstanceNorm", {&x}, site)) return *error;
  if (x.rank() < 2) return Wrong(x, "InstanceNorm", site, Cat("shape ", Text(x.dims())));
  if (x.size() == 0) return InWide("InstanceNorm", x, site, [](const Tensor& v) { return v; });
  return GroupNorm(x, x.dims()[1], weight, bias, epsilon, site);
}

}  // namespace uopd::client::fn
