// SPDX-License-Identifier: MIT
// EXP2, EXP, LOG2, LOG, SIN, COS and POW as arithmetic (DecomposeTranscendentals, decompose.h). No
// branches, so the code also works on vectors. Infinities, NaN, zeros and denormals are as in C's
// library. Stateless.
#pragma once
#include <cstddef>

#include "core/codegen/passes/numbers/expr.h"

namespace uopd::codegen {

inline Ex IsNan(Ex x) { return x.Ne(x); }
Ex Abs(Ex x);                             // of f32 or f64
Ex Clamp(Ex x, double low, double high);  // NaN for NaN

// Horner's scheme: c[0] + x * (c[1] + x * ...).
template <size_t n>
Ex Horner(Ex x, const double (&c)[n]) {
  Ex out = x.Const(c[n - 1]);
  for (size_t i = n - 1; i-- > 0;) out = out.Fma(x, x.Const(c[i]));
  return out;
}

// A logarithm of x for x > 0, completed for other x.
Ex LogOfAll(Ex x, Ex log);
// x^y for all x and y, from |x|^y where |x| is not 1.
Ex PowOfAll(Ex x, Ex y, Ex of_magnitude);

// The ops of f64. Each is within one ulp.
Ex Exp2F64(Ex x);
Ex ExpF64(Ex x);
Ex Log2F64(Ex x);
Ex LogF64(Ex x);
Ex SinF64(Ex x);
Ex CosF64(Ex x);
Ex PowF64(Ex x, Ex y);

}  // namespace uopd::codegen
