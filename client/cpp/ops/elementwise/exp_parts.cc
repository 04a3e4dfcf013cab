// SPDX-License-Identifier: MIT
#include "client/cpp/ops/elementwise/exp_parts.h"

#include <numbers>
#include <span>
#include <vector>

#include "client/cpp/graph/build.h"
#include "client/cpp/ops/common.h"
#include "core/ir/build.h"
#include "core/ir/exp2.h"

namespace uopd::client::fn {

using ir::Op;

namespace {

// ln(2) in two parts; the product of the first one and an n is exact.
double Ln2High(const Tensor& x) { return Is64(x) ? 0x1.62e42fefa3800p-1 : ir::kLn2High; }
double Ln2Low(const Tensor& x) { return Is64(x) ? 0x1.ef35793c76730p-45 : ir::kLn2Low; }

// (e^f - 1 - f) / f^2
Tensor SecondOrder(const Tensor& f) {
  if (!Is64(f)) return Polynomial(f, std::span(ir::kExpPolynomial).subspan(2));
  std::vector<double> c;  // of the Taylor polynomial: for f64 it is as short as any
  for (double n = 2, factorial = 2; n <= 13; ++n, factorial *= n) c.push_back(1 / factorial);
  return Polynomial(f, c);
}

}  // namespace

Tensor MulAdd(const Tensor& a, const Tensor& b, const Tensor& c) {
  return Made(a, ir::Alu(Ctx(a), Op::MULACC, {Value(a), Value(b), Value(c)}), "MulAdd",
              Site::current());
}
Tensor MulAdd(const Tensor& a, const Tensor& b, double c) { return MulAdd(a, b, Like(a, c)); }

ExpParts ExpPartsOf(const Tensor& x) {
  // Truncation of a positive number rounds to the nearest integer after 1/2 was added.
  const Tensor n = (MulAdd(x, Like(x, std::numbers::log2e), 2048.5)).Trunc() - 2048.0;
  const Tensor f = MulAdd(n, Like(x, -Ln2Low(x)), MulAdd(n, Like(x, -Ln2High(x)), x));
  return {n, f, f * f * SecondOrder(f)};
}

ExpParts ExpPartsOfSquare(const Tensor& x, double scale) {
  // x = a + b, and x^2 = a^2 + b (x + a), whose first term is exact.
  const Tensor a = HighBits(x), low = (x - a) * (x + a) * scale;
  const Tensor n = MulAdd(x * x, Like(x, scale * std::numbers::log2e), 0.5).Trunc();
  const Tensor rest = MulAdd(n, Like(x, Ln2High(x)), a * a * -scale);
  const Tensor less = MulAdd(n, Like(x, -Ln2Low(x)), low), f = rest - less;
  const Tensor lost = (rest - f) - less;
  return {n.Neg(), f, MulAdd(f * f, SecondOrder(f), lost)};
}

Tensor WithinExp(const Tensor& x) {
  const double high = Is64(x) ? 750 : 105;
  // By comparisons: a maximum takes more instructions, for its zeros and NaN.
  return Where(x > high, Like(x, high), Where(x < -40.0, Like(x, -40), x));
}

Tensor PowerOfTwo(const Tensor& n) {
  // The integer n + bias is in the low bits of the mantissa of the sum, from where it moves to the
  // exponent. The bias is larger than that of the dtype, so that numbers below the normal ones are
  // a product.
  const bool wide = Is64(n);
  const double more = wide ? 80 : 26;
  const Tensor sum = n + ((wide ? 0x1.8p52 + 1023 : 0x1.8p23 + 127) + more);
  const Tensor power =
      (sum.Bitcast(wide ? Dtype::U64 : Dtype::U32) << (wide ? 52 : 23)).Bitcast(n.dtype());
  return power * (wide ? 0x1p-80 : 0x1p-26);
}

Tensor HighBits(const Tensor& x) {
  const bool wide = Is64(x);
  return (x.Bitcast(wide ? Dtype::I64 : Dtype::I32) & (wide ? -(int64_t{1} << 27) : -4096))
      .Bitcast(x.dtype());
}

Tensor WithSlope(const Tensor& value, const Tensor& x, const Tensor& slope) {
  return Made(value,
              Ctx(value).Make(Op::DETACH, value.dtype(), {Value(value), Value(x), Value(slope)}),
              "WithSlope", Site::current());
}

}  // namespace uopd::client::fn
