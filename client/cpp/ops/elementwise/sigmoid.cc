// SPDX-License-Identifier: MIT
#include "client/cpp/ops/elementwise/operands.h"

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "client/cpp/ops/elementwise/exp_parts.h"
#include "uopd/activations.h"
#include "uopd/math.h"

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

namespace {

// e^-x is (1 + u) / h with a power of two h, and d = h + 1 + u; the sigmoid of x is h / d.
struct SigmoidParts {
  Tensor h, u, d;
};
SigmoidParts SigmoidPartsOf(const Tensor& x) {
  const fn::ExpParts e = fn::ExpPartsOf(fn::WithinExp(x.Neg()));
  const Tensor h = fn::PowerOfTwo(e.n.Neg()), u = e.f + e.v;
  // In this order, so that an h of 2^-24 is not lost.
  return {h, u, (u + h) + 1.0};
}

// For slopes: e = e^-|x|, which cannot overflow, r = 1 / (1 + e), and the sigmoid of x. They have
// gradients of all orders.
struct SlopeParts {
  Tensor negative, e, r, sigmoid;
};
SlopeParts SlopePartsOf(const Tensor& x) {
  const Tensor negative = x < 0.0, e = Where(negative, x, x.Neg()).Exp();
  const Tensor r = (e + 1.0).Reciprocal();
  return {negative, e, r, Where(negative, e, 1.0) * r};
}
// x, but not infinite: a product with an e of 0 is 0.
Tensor Bounded(const Tensor& x) {
  return Where(x < -1000.0, fn::Like(x, -1000), Where(x > 1000.0, fn::Like(x, 1000), x));
}

}  // namespace

Tensor Tensor::Sigmoid(Site site) const {
  return fn::InWide("Sigmoid", *this, site, [&](const Tensor& x) {
    const SigmoidParts p = SigmoidPartsOf(x);
    const SlopeParts s = SlopePartsOf(x);
    return fn::WithSlope(p.h / p.d, x, s.e * s.r * s.r);
  });
}

Tensor Tensor::Silu(Site site) const {
  return fn::InWide("Silu", *this, site, [&](const Tensor& x) {
    const SigmoidParts p = SigmoidPartsOf(x);
    const SlopeParts s = SlopePartsOf(x);
    // Scaled at last, where it is exact: x h may overflow.
    return fn::WithSlope(x / p.d * p.h, x, s.sigmoid + Bounded(x) * (s.e * s.r * s.r));
  });
}

namespace fn {

Tensor Mish(const Tensor& x, Site site) {
  return InWide("Mish", x, site, [](const Tensor& v) {
    // tanh(log(1 + e^v)) = 2 / (t + 1 / t) with t = 1 + 2 e^-v. With e^-v = (1 + u) / h it is h / d
    // for d = (h / 2 + 1 + u) + h h / (2 (h + 2 (1 + u))).
    const ExpParts e = ExpPartsOf(WithinExp(v.Neg()));
    const Tensor h = PowerOfTwo(e.n.Neg()), u = e.f + e.v, half = h * 0.5;
    const Tensor sum = half + 1.0, lost = half - (sum - 1.0);
    const Tensor rest = u + (h * h / (h * 2.0 + (u * 4.0 + 4.0)) + lost);
    const Tensor d = sum + rest, error = (rest - (d - sum)) / d;
    const Tensor q = v / d, y = (q - Guarded(IsFinite(q), q, 0) * error) * h;
    // The slope is t + v (1 - t) (1 + t) sigmoid(v) for t = over / (over + more), without the
    // difference.
    const SlopeParts s = SlopePartsOf(v);
    const Tensor over = Where(s.negative, s.e * (s.e + 2.0), s.e * 2.0 + 1.0),
                 more = Where(s.negative, Like(v, 2), s.e * s.e * 2.0), under = over + more;
    const Tensor t = over / under, rise = more / under * (t + 1.0) * s.sigmoid;
    return WithSlope(Where(v == 0.0, v, y), v, t + Bounded(v) * rise);
  });
}

}  // namespace fn
}  // namespace uopd::client
