// SPDX-License-Identifier: MIT
// Quotients that are rounded to integers, and what they leave: % and FloorDiv of Tensor, Fmod and
// Div of namespace fn. Those of floats are NumPy's, also for infinities and signs of zeros. A
// remainder is exact, so x - (x / y).Trunc() * y would not do: the quotient may have more bits than
// the dtype.
#include <cmath>
#include <limits>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/elementwise/operands.h"
#include "core/ir/build.h"
#include "uopd/math.h"

namespace uopd::client {
namespace {

using fn::Like;

// |x|, with the slope of the branch at 0 too.
Tensor Magnitude(const Tensor& x) { return Where(fn::SignBit(x), x.Neg(), x); }

// The two halves of the bits of x. Products of halves are exact.
std::pair<Tensor, Tensor> Halves(const Tensor& x) {
  const Tensor c = x * 0x1.0000002p27, high = c - (c - x);
  return {high, x - high};
}

// r - q * y, exact for an integer q that is next to r / y. T. Dekker, A floating-point technique
// for extending the available precision, 1971.
Tensor Left(const Tensor& r, const Tensor& q, const Tensor& y) {
  const Tensor p = q * y;
  const auto [q1, q2] = Halves(q);
  const auto [y1, y2] = Halves(y);
  const Tensor error = ((q1 * y1 - p) + q1 * y2 + q2 * y1) + q2 * y2;
  return (r - p) - error;
}

constexpr int kF64Bits = 200, kF32Bits = 277;  // of a quotient; of f32 never more

// x modulo y for x >= 0 and y >= 0, values of f32 or f64 in f64. From the highest bits of the
// quotient to the lowest, as many at a time as the product with y leaves exact. Exact for quotients
// of at most kF32Bits or kF64Bits.
Tensor Modulo(const Tensor& x, const Tensor& y, bool of_f32) {
  // 24 bits of y times 29 of the quotient are 53.
  const int bits = of_f32 ? 29 : 50, steps = ((of_f32 ? kF32Bits : kF64Bits) + bits - 1) / bits;
  Tensor r = x;
  for (int at = steps - 1; at >= 0; --at) {
    const Tensor multiple = at == 0 ? y : y * std::ldexp(1.0, bits * at);
    const Tensor q = (r / multiple).Trunc();
    const Tensor left = of_f32 ? r - q * multiple : Left(r, q, multiple);
    // The quotient may have been rounded to the next integer.
    r = Where(multiple <= r, Where(left < 0.0, left + multiple, left), r);
  }
  return r;
}

// The remainder with the sign of x. `of_f32`: x and y hold values of f32.
Tensor Remainder(const Tensor& x, const Tensor& y, bool of_f32) {
  Tensor a = Magnitude(x), b = Magnitude(y), known = b == b, scale;
  if (!of_f32) {
    // Halves needs room above its operand.
    const Tensor large = a > 0x1p900;
    scale = Where(large, Like(a, 0x1p-100), Like(a, 1));
    known = (a * std::ldexp(1.0, -kF64Bits) < b) & (large.Not() | (b > 0x1p-900));
    a = a * scale, b = b * scale;
  }
  Tensor r = Modulo(a, b, of_f32);
  if (!of_f32) r = r / scale;
  r = Where(fn::SignBit(x), r.Neg(), r);
  return Where(known, r, Like(r, std::numeric_limits<double>::quiet_NaN()));
}

// Whether the remainder r has the other sign than the divisor y.
Tensor IsOff(const Tensor& r, const Tensor& y) { return (r != 0.0) & ((r < 0.0) ^ (y < 0.0)); }

// f(x, y, of_f32) in f64, of operands that may be of any float dtype.
template <class F>
Tensor InF64(std::string_view what, Operand a, Operand b, F f) {
  return fn::OfPair(what, a, b, [&](const Tensor& x, const Tensor& y) {
    return f(x.Cast(Dtype::F64), y.Cast(Dtype::F64), x.dtype() != Dtype::F64).Cast(x.dtype());
  });
}

Tensor FloorQuotient(std::string_view what, Operand a, Operand b) {
  return InF64(what, a, b, [](const Tensor& x, const Tensor& y, bool of_f32) {
    const Tensor r = Remainder(x, y, of_f32), plain = x / y;
    const Tensor exact = (x - r) / y, q = Where(IsOff(r, y), exact - 1.0, exact);
    // q is an integer but for the rounding of the division.
    const Tensor below = q.Floor(), whole = Where(q - below > 0.5, below + 1.0, below);
    const Tensor out = Where(q == 0.0, fn::Copysign(0.0, plain), whole);
    return Where(y == 0.0, plain, out).Detach();
  });
}

}  // namespace

Tensor operator%(Operand a, Operand b) {
  Operands v("%", {&a, &b});
  if (!v.ok()) return v.failed();
  if (!ir::IsFloat(v.dtype())) return v.Make(ir::Alu(v.ctx(), ir::Op::FLOORMOD, {v[0], v[1]}));
  return InF64("%", a, b, [](const Tensor& x, const Tensor& y, bool of_f32) {
    const Tensor r = Remainder(x, y, of_f32);
    // A zero has the sign of y. The difference is 0, and carries the gradient.
    const Tensor zero = fn::Copysign(0.0, y).Detach() - (r.Detach() - r);
    return Where(r == 0.0, zero, Where(IsOff(r, y), r + y, r));
  });
}

Tensor Tensor::FloorDiv(Operand b) const {
  const Operand a(*this, b.site());
  Operands v("FloorDiv", {&a, &b});
  if (!v.ok()) return v.failed();
  if (ir::IsFloat(v.dtype())) return FloorQuotient("FloorDiv", a, b);
  return v.Make(ir::Alu(v.ctx(), ir::Op::FLOORDIV, {v[0], v[1]}));
}

namespace fn {

Tensor Fmod(Operand a, Operand b) {
  Operands v("Fmod", {&a, &b});
  if (!v.ok()) return v.failed();
  if (!ir::IsFloat(v.dtype())) {
    if (v.dtype() == Dtype::Bool) v.set_dtype(Dtype::I32);
    return v.Make(ir::Alu(v.ctx(), ir::Op::CMOD, {v[0], v[1]}));
  }
  return InF64("Fmod", a, b, Remainder);
}

Tensor Div(Operand a, Operand b, Rounding rounding) {
  if (rounding == Rounding::kNone) return a / b;
  Operands v("Div", {&a, &b});
  if (!v.ok()) return v.failed();
  const bool floor = rounding == Rounding::kFloor;
  if (ir::IsFloat(v.dtype())) return floor ? FloorQuotient("Div", a, b) : (a / b).Trunc(v.site());
  if (v.dtype() == Dtype::Bool) v.set_dtype(Dtype::I32);
  return v.Make(ir::Alu(v.ctx(), floor ? ir::Op::FLOORDIV : ir::Op::CDIV, {v[0], v[1]}));
}

}  // namespace fn

}  // namespace uopd::client
