// SPDX-License-Identifier: MIT
// Running sums.
#include "client/cpp/graph/build.h"
#include "client/cpp/ops/sized.h"
#include "core/ir/build.h"

namespace uopd::client {

Tensor Tensor::CumSum(int64_t axis, Site site) const {
  if (!status().ok()) return *this;
  if (is_symbolic())
    return InBox(*this, site, [&](const Tensor& t) { return t.CumSum(axis, site); });
  if (auto only =
          AlongNoAxis(*this, axis, site, [&](const Tensor& t) { return t.CumSum(0, site); }))
    return *only;
  const auto a = Axis(axis, rank());
  if (!a) return Wrong(*this, "CumSum", site, Cat("axis ", axis, " of shape ", Text(dims())));
  // Takes the dtype from a Sum that is never realised, which costs nothing.
  const Tensor x = Cast(Sum({*a}, false, site).dtype(), site);
  return Made(x, ir::Scan(Ctx(x), ir::Op::ADD, Value(x), *a), "CumSum", site);
}

}  // namespace uopd::client
