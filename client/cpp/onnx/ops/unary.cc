// SPDX-License-Identifier: MIT
// Elementwise ops of one tensor.
#include "client/cpp/onnx/run/registry.h"
#include "uopd/math.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// f(x), in the dtype of x.
OpRow Unary(std::string_view name, int since, Tensor (*f)(const Tensor&)) {
  return {name, since, 1, 1, [f](Call& c) { return c.OutAs(0, f(c.X(0))); }};
}

// f(x), which is bool.
OpRow Test(std::string_view name, int since, Tensor (*f)(const Tensor&)) {
  return {name, since, 1, 1, [f](Call& c) { return c.Out(f(c.X(0))); }};
}

absl::Status RunIsInf(Call& c) {
  const bool negative = c.Int("detect_negative", 1) != 0,
             positive = c.Int("detect_positive", 1) != 0;
  const Tensor x = c.X(0), inf = fn::IsInf(x);
  if (negative && positive) return c.Out(inf);
  if (!negative && !positive) return c.Out(fn::ZerosLike(x, Dtype::Bool));
  return c.Out(inf & (positive ? x > 0.0 : x < 0.0));
}

}  // namespace

OpRows UnaryOps() {
  return {
      Unary("Abs", 6, [](const Tensor& x) { return x.Abs(); }),
      Unary("Neg", 6, [](const Tensor& x) { return x.Neg(); }),
      Unary("Exp", 6, [](const Tensor& x) { return x.Exp(); }),
      Unary("Log", 6, [](const Tensor& x) { return x.Log(); }),
      Unary("Sqrt", 6, [](const Tensor& x) { return x.Sqrt(); }),
      Unary("Reciprocal", 6, [](const Tensor& x) { return x.Reciprocal(); }),
      Unary("Floor", 6, [](const Tensor& x) { return x.Floor(); }),
      Unary("Ceil", 6, [](const Tensor& x) { return x.Ceil(); }),
      Unary("Round", 11, [](const Tensor& x) { return fn::Round(x); }),
      Unary("Sign", 9, [](const Tensor& x) { return x.Sign(); }),
      Unary("Erf", 9, [](const Tensor& x) { return fn::Erf(x); }),
      Unary("Sin", 7, [](const Tensor& x) { return x.Sin(); }),
      Unary("Cos", 7, [](const Tensor& x) { return x.Cos(); }),
      Unary("Tan", 7, [](const Tensor& x) { return fn::Tan(x); }),
      Unary("Asin", 7, [](const Tensor& x) { return fn::Asin(x); }),
      Unary("Acos", 7, [](const Tensor& x) { return fn::Acos(x); }),
      Unary("Atan", 7, [](const Tensor& x) { return fn::Atan(x); }),
      Unary("Sinh", 9, [](const Tensor& x) { return fn::Sinh(x); }),
      Unary("Cosh", 9, [](const Tensor& x) { return fn::Cosh(x); }),
      Unary("Tanh", 6, [](const Tensor& x) { return fn::Tanh(x); }),
      Unary("Asinh", 9, [](const Tensor& x) { return fn::Asinh(x); }),
      Unary("Acosh", 9, [](const Tensor& x) { return fn::Acosh(x); }),
      Unary("Atanh", 9, [](const Tensor& x) { return fn::Atanh(x); }),
      Unary("Not", 1, [](const Tensor& x) { return x.Not(); }),
      Unary("BitwiseNot", 18, [](const Tensor& x) { return x.Not(); }),
      Test("IsNaN", 9, [](const Tensor& x) { return x.IsNan(); }),
      {"IsInf", 10, 1, 1, RunIsInf},
  };
}

}  // namespace uopd::client::onnx
