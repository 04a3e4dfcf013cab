// SPDX-License-Identifier: MIT
// Elementwise functions: one line each.
#include "native/binding.h"
#include "uopd/activations.h"
#include "uopd/math.h"

// The friends of Tensor, declared where operands find them: an Operand carries the place in the
// Python code.
namespace uopd::client {
Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
Tensor operator%(Operand a, Operand b);
Tensor operator&(Operand a, Operand b);
Tensor operator|(Operand a, Operand b);
Tensor operator^(Operand a, Operand b);
Tensor operator<<(Operand a, Operand b);
Tensor operator>>(Operand a, Operand b);
Tensor operator<(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);
Tensor operator==(Operand a, Operand b);
Tensor operator!=(Operand a, Operand b);
}  // namespace uopd::client

namespace uopd::python {
namespace {

namespace fn = client::fn;
using H = const Handle&;
using A = const Arg&;

void BindOperators(Ops op) {
  op("add", [](Site s, A a, A b) { return a.At(s) + b.At(s); });
  op("sub", [](Site s, A a, A b) { return a.At(s) - b.At(s); });
  op("mul", [](Site s, A a, A b) { return a.At(s) * b.At(s); });
  op("div", [](Site s, A a, A b) { return a.At(s) / b.At(s); });
  op("mod", [](Site s, A a, A b) { return a.At(s) % b.At(s); });
  op("and_", [](Site s, A a, A b) { return a.At(s) & b.At(s); });
  op("or_", [](Site s, A a, A b) { return a.At(s) | b.At(s); });
  op("xor", [](Site s, A a, A b) { return a.At(s) ^ b.At(s); });
  op("lshift", [](Site s, A a, A b) { return a.At(s) << b.At(s); });
  op("rshift", [](Site s, A a, A b) { return a.At(s) >> b.At(s); });
  op("lt", [](Site s, A a, A b) { return a.At(s) < b.At(s); });
  op("gt", [](Site s, A a, A b) { return a.At(s) > b.At(s); });
  op("le", [](Site s, A a, A b) { return a.At(s) <= b.At(s); });
  op("ge", [](Site s, A a, A b) { return a.At(s) >= b.At(s); });
  op("eq", [](Site s, A a, A b) { return a.At(s) == b.At(s); });
  op("ne", [](Site s, A a, A b) { return a.At(s) != b.At(s); });
  op("pow", [](Site s, H a, A b) { return a.tensor().Pow(b.At(s)); });
  op("maximum", [](Site s, H a, A b) { return a.tensor().Maximum(b.At(s)); });
  op("minimum", [](Site s, H a, A b) { return a.tensor().Minimum(b.At(s)); });
  op("at_least", [](Site s, H a, A b) { return a.tensor().AtLeast(b.At(s)); });
  op("at_most", [](Site s, H a, A b) { return a.tensor().AtMost(b.At(s)); });
  op("div_mode", [](Site s, A a, A b, int mode) {
    return fn::Div(a.At(s), b.At(s), static_cast<fn::Rounding>(mode));
  });
  op("fmod", [](Site s, A a, A b) { return fn::Fmod(a.At(s), b.At(s)); });
  op("atan2", [](Site s, A a, A b) { return fn::Atan2(a.At(s), b.At(s)); });
  op("hypot", [](Site s, A a, A b) { return fn::Hypot(a.At(s), b.At(s)); });
  op("copysign", [](Site s, A a, A b) { return fn::Copysign(a.At(s), b.At(s)); });
  op("logaddexp", [](Site s, A a, A b) { return fn::LogAddExp(a.At(s), b.At(s)); });
  op("lerp", [](Site s, A a, A b, A w) { return fn::Lerp(a.At(s), b.At(s), w.At(s)); });
  op("where", [](Site s, A c, A a, A b) { return client::Where(c.At(s), a.At(s), b.At(s)); });
  op("masked_fill",
     [](Site s, H x, H m, A v) { return fn::MaskedFill(x.tensor(), m.tensor(), v.At(s), s); });
  op("isclose", [](Site s, A a, A b, double rtol, double atol, bool nan) {
    return fn::IsClose(a.At(s), b.At(s), rtol, atol, nan);
  });
}

// One input, no options.
void BindFunctions(Ops op) {
  op("neg", [](Site s, H x) { return x.tensor().Neg(s); });
  op("not_", [](Site s, H x) { return x.tensor().Not(s); });
  op("exp2", [](Site s, H x) { return x.tensor().Exp2(s); });
  op("log2", [](Site s, H x) { return x.tensor().Log2(s); });
  op("exp", [](Site s, H x) { return x.tensor().Exp(s); });
  op("log", [](Site s, H x) { return x.tensor().Log(s); });
  op("sin", [](Site s, H x) { return x.tensor().Sin(s); });
  op("cos", [](Site s, H x) { return x.tensor().Cos(s); });
  op("sqrt", [](Site s, H x) { return x.tensor().Sqrt(s); });
  op("rsqrt", [](Site s, H x) { return x.tensor().Rsqrt(s); });
  op("reciprocal", [](Site s, H x) { return x.tensor().Reciprocal(s); });
  op("trunc", [](Site s, H x) { return x.tensor().Trunc(s); });
  op("floor", [](Site s, H x) { return x.tensor().Floor(s); });
  op("ceil", [](Site s, H x) { return x.tensor().Ceil(s); });
  op("round", [](Site s, H x) { return fn::Round(x.tensor(), s); });
  op("abs", [](Site s, H x) { return x.tensor().Abs(s); });
  op("square", [](Site s, H x) { return x.tensor().Square(s); });
  op("sign", [](Site s, H x) { return x.tensor().Sign(s); });
  op("isnan", [](Site s, H x) { return x.tensor().IsNan(s); });
  op("isinf", [](Site s, H x) { return fn::IsInf(x.tensor(), s); });
  op("isfinite", [](Site s, H x) { return fn::IsFinite(x.tensor(), s); });
  op("relu", [](Site s, H x) { return x.tensor().Relu(s); });
  op("sigmoid", [](Site s, H x) { return x.tensor().Sigmoid(s); });
  op("silu", [](Site s, H x) { return x.tensor().Silu(s); });
  op("expm1", [](Site s, H x) { return fn::Expm1(x.tensor(), s); });
  op("log1p", [](Site s, H x) { return fn::Log1p(x.tensor(), s); });
  op("log10", [](Site s, H x) { return fn::Log10(x.tensor(), s); });
  op("tan", [](Site s, H x) { return fn::Tan(x.tensor(), s); });
  op("asin", [](Site s, H x) { return fn::Asin(x.tensor(), s); });
  op("acos", [](Site s, H x) { return fn::Acos(x.tensor(), s); });
  op("atan", [](Site s, H x) { return fn::Atan(x.tensor(), s); });
  op("sinh", [](Site s, H x) { return fn::Sinh(x.tensor(), s); });
  op("cosh", [](Site s, H x) { return fn::Cosh(x.tensor(), s); });
  op("tanh", [](Site s, H x) { return fn::Tanh(x.tensor(), s); });
  op("asinh", [](Site s, H x) { return fn::Asinh(x.tensor(), s); });
  op("acosh", [](Site s, H x) { return fn::Acosh(x.tensor(), s); });
  op("atanh", [](Site s, H x) { return fn::Atanh(x.tensor(), s); });
  op("erf", [](Site s, H x) { return fn::Erf(x.tensor(), s); });
  op("erfc", [](Site s, H x) { return fn::Erfc(x.tensor(), s); });
  op("relu6", [](Site s, H x) { return fn::Relu6(x.tensor(), s); });
  op("logsigmoid", [](Site s, H x) { return fn::LogSigmoid(x.tensor(), s); });
  op("softsign", [](Site s, H x) { return fn::Softsign(x.tensor(), s); });
  op("mish", [](Site s, H x) { return fn::Mish(x.tensor(), s); });
  op("hardswish", [](Site s, H x) { return fn::HardSwish(x.tensor(), s); });
  op("exp10", [](Site s, H x) { return fn::Exp10(x.tensor(), s); });
  op("tanhshrink", [](Site s, H x) { return fn::TanhShrink(x.tensor(), s); });
  op("quick_gelu", [](Site s, H x) { return fn::QuickGelu(x.tensor(), s); });
  op("contiguous", [](Site s, H x) { return x.tensor().Contiguous(s); });
  op("contiguous_backward", [](Site s, H x) { return x.tensor().ContiguousBackward(s); });
  op("apart", [](Site s, H x) { return x.tensor().Apart(s); });
  op("detach", [](Site s, H x) { return x.tensor().Detach(s); });
}

}  // namespace

void BindElementwise(Ops op) {
  BindOperators(op);
  BindFunctions(op);
  op("clip", [](Site s, H x, double low, double high) { return x.tensor().Clip(low, high, s); });
  op("gelu", [](Site s, H x, bool tanh) {
    return fn::Gelu(x.tensor(), tanh ? fn::GeluForm::kTanh : fn::GeluForm::kExact, s);
  });
  op("leaky_relu", [](Site s, H x, double slope) { return fn::LeakyRelu(x.tensor(), slope, s); });
  op("elu", [](Site s, H x, double alpha) { return fn::Elu(x.tensor(), alpha, s); });
  op("celu", [](Site s, H x, double alpha) { return fn::Celu(x.tensor(), alpha, s); });
  op("selu",
     [](Site s, H x, double alpha, double scale) { return fn::Selu(x.tensor(), alpha, scale, s); });
  op("softplus", [](Site s, H x, double beta) { return fn::Softplus(x.tensor(), beta, s); });
  op("hardsigmoid", [](Site s, H x, double slope, double offset) {
    return fn::HardSigmoid(x.tensor(), slope, offset, s);
  });
  op("prelu", [](Site s, H x, H w) { return fn::Prelu(x.tensor(), w.tensor(), s); });
  op("threshold", [](Site s, H x, double limit, double value) {
    return fn::Threshold(x.tensor(), limit, value, s);
  });
  op("hardshrink",
     [](Site s, H x, double lambda) { return fn::HardShrink(x.tensor(), lambda, s); });
  op("softshrink",
     [](Site s, H x, double lambda) { return fn::SoftShrink(x.tensor(), lambda, s); });
  op("glu", [](Site s, H x, int64_t axis) { return fn::Glu(x.tensor(), axis, s); });
  op("nan_to_num",
     [](Site s, H x, double nan, std::optional<double> high, std::optional<double> low) {
       return fn::NanToNum(x.tensor(), nan, high, low, s);
     });
  op("hardtanh",
     [](Site s, H x, double low, double high) { return fn::HardTanh(x.tensor(), low, high, s); });
  op("cast", [](Site s, H x, int dtype) { return x.tensor().Cast(static_cast<Dtype>(dtype), s); });
  op("bitcast",
     [](Site s, H x, int dtype) { return x.tensor().Bitcast(static_cast<Dtype>(dtype), s); });
}

}  // namespace uopd::python
