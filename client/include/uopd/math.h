// SPDX-License-Identifier: MIT
// Elementwise functions beyond those of Tensor. Names, special values (NaN, infinities, signed
// zeros) and the order of arguments are NumPy's. Errors and promotion are as in tensor.h.
//
// Functions of floats give f32 for integers and bools. f16, bf16 and fp8 are computed in f32 and
// rounded once. The errors are a few units in the last place, also near zeros of the function:
// docs/accuracy.md has them. All functions have gradients.
#pragma once
#include <optional>

#include "uopd/tensor.h"

namespace uopd::client::fn {

Tensor Expm1(const Tensor& x, Site site = Site::current());  // exp(x) - 1
Tensor Log1p(const Tensor& x, Site site = Site::current());  // log(1 + x)
Tensor Log10(const Tensor& x, Site site = Site::current());
Tensor Exp10(const Tensor& x, Site site = Site::current());

Tensor Tan(const Tensor& x, Site site = Site::current());
Tensor Asin(const Tensor& x, Site site = Site::current());
Tensor Acos(const Tensor& x, Site site = Site::current());
Tensor Atan(const Tensor& x, Site site = Site::current());
// The angle of the point (x, y), in [-pi, pi].
Tensor Atan2(Operand y, Operand x);
Tensor Sinh(const Tensor& x, Site site = Site::current());
Tensor Cosh(const Tensor& x, Site site = Site::current());
// As Tensor::Tanh, but accurate near 0 as well: Tensor::Tanh has an absolute error of one unit in
// the last place of 1, and is cheaper.
Tensor Tanh(const Tensor& x, Site site = Site::current());
Tensor Asinh(const Tensor& x, Site site = Site::current());
Tensor Acosh(const Tensor& x, Site site = Site::current());
Tensor Atanh(const Tensor& x, Site site = Site::current());

Tensor Erf(const Tensor& x, Site site = Site::current());
// 1 - erf(x), without cancellation for large x.
Tensor Erfc(const Tensor& x, Site site = Site::current());

// To the nearest integer, halves to the even one. Integers stay as they are. No gradient flows.
Tensor Round(const Tensor& x, Site site = Site::current());
// The magnitude of a with the sign of b; the sign of a zero or a NaN counts.
Tensor Copysign(Operand a, Operand b);
// Bools.
Tensor IsInf(const Tensor& x, Site site = Site::current());
Tensor IsFinite(const Tensor& x, Site site = Site::current());
// |a - b| <= atol + rtol |b|, or a == b.
Tensor IsClose(Operand a, Operand b, double rtol = 1e-5, double atol = 1e-8,
               bool equal_nan = false);

Tensor Lerp(Operand a, Operand b, Operand weight);  // a + weight (b - a)
Tensor LogAddExp(Operand a, Operand b);             // log(exp(a) + exp(b))
Tensor Hypot(Operand a, Operand b);                 // sqrt(a^2 + b^2), without overflow
// The remainder of the quotient rounded toward zero, so it has the sign of a. (% has that of b.)
// Integers stay integers. The remainder of floats is exact; of two f64 with |a / b| of 2^200 and
// more it is NaN.
Tensor Fmod(Operand a, Operand b);
enum class Rounding { kNone, kTrunc, kFloor };
// a / b. With kTrunc and kFloor the quotient of integers is an integer. Of floats, kTrunc cuts off
// the quotient that is rounded to the dtype, and kFloor is FloorDiv: the exact quotient rounded
// down.
Tensor Div(Operand a, Operand b, Rounding rounding = Rounding::kNone);

// NaN becomes `nan`, infinities the given values or the largest finite values of the dtype.
Tensor NanToNum(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                std::optional<double> neginf = {}, Site site = Site::current());
// `value` where the mask, which broadcasts to the shape of x, is true. The dtype stays that of x.
Tensor MaskedFill(const Tensor& x, const Tensor& mask, Operand value, Site site = Site::current());

}  // namespace uopd::client::fn
