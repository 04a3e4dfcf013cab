// SPDX-License-Identifier: MIT
// Exponentials that are not rounded before they are part of a sum or a product: what is computed
// from EXP has its error, up to twice in units of the result. For tensors of f32 or f64. Internal
// to the library.
#pragma once
#include "uopd/tensor.h"

namespace uopd::client::fn {

// 2^n (1 + f + v), with an error of 2^-26 in the sum of f and v for f32; |f| is at most about ln(2)
// / 2, and v about f^2 / 2. n is a float without a fraction.
struct ExpParts {
  Tensor n, f, v;
};
// Of e^x. REQUIRES: x is in WithinExp. NaN for NaN.
ExpParts ExpPartsOf(const Tensor& x);
// Of e^(-scale x^2), for a scale of 1 or 1/2, as accurate as if x^2 were exact. REQUIRES: 0 <= x <
// sqrt(105 / scale) for f32, and 750 for f64. Has no gradient (it takes numbers to pieces by their
// bits).
ExpParts ExpPartsOfSquare(const Tensor& x, double scale);

// x between -40, where 1 + e^x is 1, and 105 for f32 or 750 for f64, where e^-x is 0. NaN for NaN.
Tensor WithinExp(const Tensor& x);
// 2^n for whole n that are at most 60 and not below the exponent of the smallest positive number by
// more than 3.
Tensor PowerOfTwo(const Tensor& n);
// The upper half of the bits of x: the product of two such numbers is exact. Has no gradient.
Tensor HighBits(const Tensor& x);
// a * b + c, rounded once or twice, as the device likes. c is a tensor or a number.
Tensor MulAdd(const Tensor& a, const Tensor& b, const Tensor& c);
Tensor MulAdd(const Tensor& a, const Tensor& b, double c);

// `value`, whose gradient for x is `slope`. All have one shape and dtype. For values that are
// computed in another way than one would differentiate.
Tensor WithSlope(const Tensor& value, const Tensor& x, const Tensor& slope);

}  // namespace uopd::client::fn
