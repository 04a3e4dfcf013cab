// SPDX-License-Identifier: MIT
#include "client/cpp/ops/sigmoid.h"

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"

namespace uopd::client {

using ir::Op;
using ir::UOp;

namespace {

// e of 1 + e with e = exp(x); null for other values.
UOp MaybeExponential(UOp sum) {
  if (!sum.Is(Op::ADD)) return UOp();
  for (const size_t i : {0, 1}) {
    if (sum.src(i).Is(Op::EXP) && sum.src(1 - i).IsConst(1)) return sum.src(i);
  }
  return UOp();
}

}  // namespace

std::optional<Tensor> MaybeSigmoid(const Operand& a, const Operand& b) {
  const Tensor* under = b.tensor();
  const Tensor* over = a.tensor();
  if (under == nullptr || !under->status().ok() || (over != nullptr && !over->status().ok()))
    return std::nullopt;
  const UOp e = MaybeExponential(Value(*under));
  if (!e) return std::nullopt;
  if (over != nullptr && over->state()->graph != under->state()->graph) return std::nullopt;
  const Site site = over != nullptr ? a.site() : b.site();
  const Tensor x = Made(*under, e.src(0), "Sigmoid", site);
  if (over != nullptr && Value(*over) == e) return x.Sigmoid(site);
  const Tensor s = x.Neg(site).Sigmoid(site);
  const bool is_one = over == nullptr ? !a.is_bool() && a.number() == 1
                                      : Value(*over).IsConst(1) && over->dtype() == e.dtype();
  return is_one ? s : a * s;
}

Tensor Tensor::Sigmoid(Site site) const {
  return fn::InWide("Sigmoid", *this, site, [&](const Tensor& x) {
    // Let e = exp(-|x|), which cannot overflow. The result is 1 / (1 + e), or e / (1 + e) for
    // negative x. So the gradient is finite everywhere.
    const Tensor negative = Operand(x, site) < 0;
    const Tensor e = Where(negative, x, x.Neg(site)).Exp(site);
    return BinaryOp(Where(negative, e, 1.0), 1.0 + e, Op::FDIV, "Sigmoid");
  });
}

}  // namespace uopd::client
