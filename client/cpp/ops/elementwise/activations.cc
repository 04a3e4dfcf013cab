// SPDX-License-Identifier: MIT
#include "uopd/activations.h"

#include <cmath>
#include <numbers>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/sized.h"
#include "core/rules/gradient.h"
#include "uopd/math.h"

namespace uopd::client::fn {
namespace {

Tensor SoftplusOf(const Tensor& x) {
  // exp of minus the magnitude cannot overflow. The magnitude has a slope at 0 as well.
  const Tensor positive = x > 0.0;
  return Guarded(positive, x, 0) + Log1p(Where(positive, x.Neg(), x).Exp());
}

// alpha (exp(x / alpha) - 1) for negative x, else x.
Tensor EluOf(const Tensor& x, double alpha, double inner) {
  const Tensor positive = x > 0.0;
  return Where(positive, x, Expm1(Guarded(positive.Not(), x, 0) * (1 / inner)) * alpha);
}

// The gradient at the limits is 0, as PyTorch has it for functions with flat ends.
Tensor Within(const Tensor& x, double low, double high) {
  const Tensor y = BinaryOp(x, low, ir::Op::MAX, "Within", rules::kTieSecond);
  return BinaryOp(y.Neg(), -high, ir::Op::MAX, "Within", rules::kTieSecond).Neg();
}

}  // namespace

Tensor LeakyRelu(const Tensor& x, double negative_slope, Site site) {
  return InWide("LeakyRelu", x, site,
                [&](const Tensor& v) { return Where(v > 0.0, v, v * negative_slope); });
}
Tensor Relu6(const Tensor& x, Site site) {
  return InWide("Relu6", x, site, [](const Tensor& v) { return Within(v, 0, 6); });
}

Tensor Prelu(const Tensor& x, const Tensor& weight, Site site) {
  if (auto error = FirstError("Prelu", {&x, &weight}, site)) return *error;
  if (auto error = Symbolic(weight, "Prelu", site)) return *error;
  const bool channels = x.rank() >= 2 && weight.dims() == Dims{x.dims()[1]};
  if (!channels && weight.size() != 1) {
    return Wrong(x, "Prelu", site,
                 Cat("weight of shape ", Text(weight.dims()), " for shape ", Text(x.dims())));
  }
  Dims column(weight.size() == 1 ? 0 : x.dims().size(), 1);
  if (weight.size() != 1) column[1] = weight.size();
  const Tensor w = Wide(weight, site).Reshape(column, site);
  return InWide("Prelu", x, site, [&](const Tensor& v) { return Where(v > 0.0, v, v * w); });
}

Tensor Threshold(const Tensor& x, double threshold, double value, Site site) {
  return InWide("Threshold", x, site, [&](const Tensor& v) {
    return Where((v > threshold) | v.IsNan(), v, Like(v, value));
  });
}

Tensor Elu(const Tensor& x, double alpha, Site site) {
  return InWide("Elu", x, site, [&](const Tensor& v) { return EluOf(v, alpha, 1); });
}
Tensor Celu(const Tensor& x, double alpha, Site site) {
  if (alpha == 0 && x.status().ok()) return Wrong(x, "Celu", site, "alpha is 0");
  return InWide("Celu", x, site, [&](const Tensor& v) { return EluOf(v, alpha, alpha); });
}
Tensor Selu(const Tensor& x, double alpha, double scale, Site site) {
  return InWide("Selu", x, site, [&](const Tensor& v) { return EluOf(v, alpha, 1) * scale; });
}

Tensor Softplus(const Tensor& x, double beta, Site site) {
  if (beta == 0 && x.status().ok()) return Wrong(x, "Softplus", site, "beta is 0");
  return InWide("Softplus", x, site,
                [&](const Tensor& v) { return SoftplusOf(v * beta) * (1 / beta); });
}
Tensor LogSigmoid(const Tensor& x, Site site) {
  return InWide("LogSigmoid", x, site, [](const Tensor& v) { return SoftplusOf(v.Neg()).Neg(); });
}
Tensor Softsign(const Tensor& x, Site site) {
  return InWide("Softsign", x, site, [](const Tensor& v) { return v / (v.Abs() + 1.0); });
}

Tensor HardSigmoid(const Tensor& x, double slope, double offset, Site site) {
  if (slope == 0 && x.status().ok()) return Wrong(x, "HardSigmoid", site, "the slope is 0");
  // The sum is exact near the zero of the line.
  return InWide("HardSigmoid", x, site,
                [&](const Tensor& v) { return Within((v + offset / slope) * slope, 0, 1); });
}
Tensor HardSwish(const Tensor& x, Site site) {
  return InWide("HardSwish", x, site,
                [](const Tensor& v) { return v * Within(v + 3.0, 0, 6) * (1.0 / 6); });
}
Tensor HardTanh(const Tensor& x, double low, double high, Site site) {
  return InWide("HardTanh", x, site, [&](const Tensor& v) { return Within(v, low, high); });
}
Tensor HardShrink(const Tensor& x, double lambda, Site site) {
  return InWide("HardShrink", x, site, [&](const Tensor& v) {
    return Where((v >= -lambda) & (v <= lambda), Like(v, 0), v);
  });
}
Tensor SoftShrink(const Tensor& x, double lambda, Site site) {
  return InWide("SoftShrink", x, site, [&](const Tensor& v) {
    return Where(v > lambda, v - lambda,
                 Where(v < -lambda, v + lambda, Where(v.IsNan(), v, Like(v, 0))));
  });
}
Tensor TanhShrink(const Tensor& x, Site site) {
  return InWide("TanhShrink", x, site, [](const Tensor& v) { return v - Tanh(v); });
}

Tensor Gelu(const Tensor& x, GeluForm form, Site site) {
  return InWide("Gelu", x, site, [&](const Tensor& v) {
    if (form == GeluForm::kExact) return TimesNormal(v);
    const double scale = 2 * std::sqrt(2 / std::numbers::pi);  // (1 + tanh(z)) / 2 = sigmoid(2 z)
    return v * ((v + v * v * v * 0.044715) * scale).Sigmoid();
  });
}
Tensor QuickGelu(const Tensor& x, Site site) {
  return InWide("QuickGelu", x, site, [](const Tensor& v) { return v * (v * 1.702).Sigmoid(); });
}

Tensor Glu(const Tensor& x, int64_t axis, Site site) {
  if (auto error = FirstError("Glu", {&x}, site)) return *error;
  const auto a = Axis(axis, x.rank());
  if (a && !ShapeOf(x)[static_cast<size_t>(*a)].Is(ir::Op::CONST))
    return Wrong(x, "Glu", site, Cat("axis ", axis, " of shape ", ShapeText(x), " has no halves"));
  const int64_t n = a ? x.dims()[static_cast<size_t>(*a)] : 1;
  if (n % 2 != 0)
    return Wrong(x, "Glu", site,
                 Cat("axis ", axis, " of shape ", Text(x.dims()), " has no halves"));
  return InWide("Glu", x, site, [&](const Tensor& v) {
    return v.Narrow(*a, 0, n / 2) * v.Narrow(*a, n / 2, n / 2).Sigmoid();
  });
}
Tensor Softmin(const Tensor& x, int64_t axis, Site site) {
  if (auto error = FirstError("Softmin", {&x}, site)) return *error;
  return x.Neg(site).Softmax(axis, site);
}

}  // namespace uopd::client::fn
