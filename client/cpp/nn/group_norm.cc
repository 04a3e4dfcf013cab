// SPDX-License-Identifier: MIT
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "uopd/functional.h"

namespace uopd::client::fn {

Tensor GroupNorm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                 double epsilon, Site site) {
  if (auto error = FirstError("GroupNorm", {&x}, site)) return *error;
  if (x.rank() < 2 || groups < 1 || !ShapeOf(x)[1].Is(ir::Op::CONST) || x.dims()[1] % groups != 0)
    return Wrong(x, "GroupNorm", site, Cat(groups, " groups for shape ", Text(x.dims())));
  for (const Tensor* t : {&weight, &bias}) {
    if (!Has(*t)) continue;
    if (auto error = FirstError("GroupNorm", {&x, t}, site)) return *error;
    if (t->dims() != Dims{x.dims()[1]}) {
      return Wrong(x, "GroupNorm", site,
                   Cat("a parameter of shape ", Text(t->dims()), " for shape ", Text(x.dims())));
    }
  }
  if (x.size() == 0) return InWide("GroupNorm", x, site, [](const Tensor& v) { return v; });
  Dims column(x.dims().size(), 1);
  column[1] = x.dims()[1];
  return InWide("GroupNorm", x, site, [&](const Tensor& v) {
    ir::UOpContext& ctx = Ctx(x);
    const ir::SymbolicDims sizes = SizesOf(x);
    ir::UOp each = ctx.Idx(x.dims()[1] / groups);
    for (size_t i = 2; i < sizes.size(); ++i) each = ProductOf(ctx, each, sizes[i]);
    const ir::SymbolicDims split = {sizes[0], ctx.Idx(groups), each};
    Tensor y = LayerNorm(ReshapeTo(v, split, "GroupNorm", site), {}, {}, 1, epsilon, site);
    if (!y.status().ok()) return y;
    y = ReshapeTo(y, sizes, "GroupNorm", site);
    if (Has(weight)) y = y * weight.Reshape(column, site);
    if (Has(bias)) y = y + bias.Reshape(column, site);
    return y;
  });
}

Tensor InstanceNorm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                    Site site) {
  if (auto error = FirstError("InstanceNorm", {&x}, site)) return *error;
  if (x.rank() < 2) return Wrong(x, "InstanceNorm", site, Cat("shape ", Text(x.dims())));
  if (x.size() == 0) return InWide("InstanceNorm", x, site, [](const Tensor& v) { return v; });
  return GroupNorm(x, x.dims()[1], weight, bias, epsilon, site);
}

}  // namespace uopd::client::fn
