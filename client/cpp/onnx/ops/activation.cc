// SPDX-License-Identifier: MIT
// Activation functions, and the softmax family.
#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/activations.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

OpRow Activation(std::string_view name, int since, Tensor (*f)(Call&, const Tensor&)) {
  return {name, since, 1, 1, [f](Call& c) { return c.OutAs(0, f(c, c.X(0))); }};
}

absl::Status RunPRelu(Call& c) {
  Tensor slope = c.X(1);
  // Before operator set 7: one slope for each channel.
  if (c.opset() < 7 && c.Rank(1) == 1 && c.Rank(0) > 1 && c.Shape(1)[0] != 1) {
    Dims column(static_cast<size_t>(c.Rank(0) - 1), 1);
    column[0] = c.Shape(1)[0];
    slope = slope.Reshape(column);
  }
  const Tensor x = c.X(0), y = Where(x < 0, x * slope, x);
  if (y.status().ok() && y.dims() != c.Shape(0))
    return c.Wrong("the slope does not broadcast to the shape of the input");
  return c.OutAs(0, y);
}

absl::Status RunGelu(Call& c) {
  const std::string_view form = c.String("approximate", "none");
  if (form != "none" && form != "tanh") return c.Wrong("the attribute approximate is not known");
  return c.OutAs(0, fn::Gelu(c.X(0), form == "none" ? fn::GeluForm::kExact : fn::GeluForm::kTanh));
}

// f along an axis. Before operator set 13: over all axes from this one on, as one.
OpRow AlongAxis(std::string_view name, Tensor (*f)(const Tensor&, int64_t axis)) {
  return {name, 1, 1, 1, [f](Call& c) -> absl::Status {
            const Tensor x = c.X(0);
            if (c.opset() >= 13) {
              UOPD_ASSIGN(const int64_t axis,
                          c.Axis(c.Int("axis", -1), std::max<int64_t>(c.Rank(0), 1)));
              return c.OutAs(0, f(x, axis));
            }
            // The number of axes is an axis here: then all elements are rows of one.
            int64_t axis = c.Int("axis", 1);
            if (axis < 0) axis += c.Rank(0);
            if (axis < 0 || axis > c.Rank(0)) return c.Wrong("the axis is out of range");
            Dims rows = c.Shape(0);
            rows.resize(static_cast<size_t>(axis));
            rows.push_back(ir::Product(std::span(c.Shape(0)).subspan(static_cast<size_t>(axis))));
            return c.OutAs(0, f(x.Reshape(rows), axis).Reshape(c.Shape(0)));
          }};
}

Tensor HardmaxOf(const Tensor& x, int64_t axis) {
  const Tensor at = x.Argmax(axis, true);
  Dims along(static_cast<size_t>(x.rank()), 1);
  if (along.empty()) return fn::OnesLike(x);
  along[static_cast<size_t>(axis)] = -1;
  const Tensor numbers =
      fn::OnesLike(x.Narrow(axis, 0, x.dims()[static_cast<size_t>(axis)])).Cast(at.dtype());
  return ((numbers.CumSum(axis) - 1) == at).Cast(x.dtype());
}

}  // namespace

OpRows ActivationOps() {
  return {
      Activation("Relu", 6, [](Call&, const Tensor& x) { return x.Maximum(0); }),
      Activation("Sigmoid", 6, [](Call&, const Tensor& x) { return x.Sigmoid(); }),
      Activation(
          "LeakyRelu", 6,
          [](Call& c, const Tensor& x) { return Where(x < 0.0, x * c.Float("alpha", 0.01), x); }),
      Activation("Elu", 6,
                 [](Call& c, const Tensor& x) { return fn::Elu(x, c.Float("alpha", 1)); }),
      Activation("Celu", 12,
                 [](Call& c, const Tensor& x) { return fn::Celu(x, c.Float("alpha", 1)); }),
      Activation("Selu", 6,
                 [](Call& c, const Tensor& x) {
                   return fn::Selu(x, c.Float("alpha", 1.67326319217681884765625),
                                   c.Float("gamma", 1.05070102214813232421875));
                 }),
      Activation("HardSigmoid", 6,
                 [](Call& c, const Tensor& x) {
                   return (x * c.Float("alpha", 0.2) + c.Float("beta", 0.5)).Clip(0, 1);
                 }),
      Activation("HardSwish", 14, [](Call&, const Tensor& x) { return fn::HardSwish(x); }),
      Activation("Softplus", 1, [](Call&, const Tensor& x) { return fn::Softplus(x); }),
      Activation("Softsign", 1, [](Call&, const Tensor& x) { return fn::Softsign(x); }),
      Activation("Mish", 18, [](Call&, const Tensor& x) { return fn::Mish(x); }),
      Activation("Swish", 24,
                 [](Call& c, const Tensor& x) { return x * (x * c.Float("alpha", 1)).Sigmoid(); }),
      Activation("ThresholdedRelu", 10,
                 [](Call& c, const Tensor& x) {
                   return Where(x > c.Float("alpha", 1), x, fn::ZerosLike(x));
                 }),
      Activation("Shrink", 9,
                 [](Call& c, const Tensor& x) {
                   const double bias = c.Float("bias", 0), limit = c.Float("lambd", 0.5);
                   return Where(x < -limit, x + bias, Where(x > limit, x - bias, fn::ZerosLike(x)));
                 }),
      {"PRelu", 6, 2, 2, RunPRelu},
      {"Gelu", 20, 1, 1, RunGelu},
      AlongAxis("Softmax", [](const Tensor& x, int64_t axis) { return x.Softmax(axis); }),
      AlongAxis("LogSoftmax", [](const Tensor& x, int64_t axis) { return x.LogSoftmax(axis); }),
      AlongAxis("Hardmax", HardmaxOf),
  };
}

}  // namespace uopd::client::onnx
