// SPDX-License-Identifier: MIT
// EXP2, EXP, LOG2, LOG and POW of f64. EXP and POW compute with sums of two f64 (T. Dekker, A
// floating-point technique for extending the available precision, 1971), since an error in the
// exponent of 2 counts as often as it is large.
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/codegen/passes/numbers/transcendental.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;

// The sum of two f64, |low| at most an ulp of high.
struct Pair {
  Ex high, low;
};

// a + b. REQUIRES: |a| >= |b|, or a is 0.
Pair SumOfOrdered(Ex a, Ex b) {
  const Ex s = a + b;
  return {s, b - (s - a)};
}
Pair Sum(Ex a, Ex b) {
  const Ex s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
// a in two parts of 26 bits, whose products are exact. REQUIRES: |a| < 2^990.
Pair Halves(Ex a) {
  const Ex c = a * 0x1.0000002p27, high = c - (c - a);
  return {high, a - high};
}
Pair Product(Ex a, Ex b) {
  const Ex p = a * b;
  const Pair x = Halves(a), y = Halves(b);
  return {p, (((x.high * y.high - p) + x.high * y.low) + x.low * y.high) + x.low * y.low};
}
Pair Product(Pair a, Pair b) {
  const Pair p = Product(a.high, b.high);
  return SumOfOrdered(p.high, p.low + (a.high * b.low + a.low * b.high));
}

constexpr double kLog2e = 0x1.71547652b82fep0, kLog2eRest = 0x1.777d0ffda0d24p-56;

// 2^(x + rest) for a small rest. Null: 0.
Ex Exp2OfSum(Ex x, const Ex* maybe_rest) {
  double c[14] = {1};
  for (int i = 1; i < 14; ++i) c[i] = c[i - 1] * std::numbers::ln2 / i;
  x = Clamp(x, -1080, 1030);
  const Ex shifted = x + 0x1.8p52;  // the low mantissa bits are the nearest integer to x
  Ex part = x - (shifted - 0x1.8p52);
  if (maybe_rest != nullptr) part = part + *maybe_rest;
  const Ex p = Horner(part, c);
  const Ex bits = shifted.Bitcast(Dtype::I64), whole = bits - bits.Bits(0x4338000000000000);
  // In two factors, as in f32: a denormal result is rounded once.
  const Ex half = whole >> 1;
  const Ex s1 = ((half + 1023) << 52).Bitcast(Dtype::F64),
           s2 = ((whole - half + 1023) << 52).Bitcast(Dtype::F64);
  return p * s1 * s2;
}

// x = 2^exponent * m for x > 0, m in [sqrt(1/2), sqrt(2)).
struct Binary {
  Ex exponent, m;
};
Binary BinaryOf(Ex x) {
  const Ex tiny = x < 0x1p-1022;
  const Ex bits = tiny.Select(x * 0x1p54, x).Bitcast(Dtype::I64);
  const Ex e = (bits - bits.Bits(0x3fe6a09e667f3bcd)) >> 52;
  const Ex offset = tiny.Select(e.Const(54), e.Const(0));
  return {(e - offset).Cast(Dtype::F64), (bits - (e << 52)).Bitcast(Dtype::F64)};
}

// log2(a) for a > 0, with an error of about 2^-65 of it.
Pair Log2Pair(Ex a) {
  const Binary b = BinaryOf(a);
  // ln(m) = 2 atanh(s) = s * (2 + s^2 * (2/3 + s^2 * (2/5 + ...))), s = (m - 1) / (m + 1)
  const Ex f = b.m - 1.0;
  const Pair d = Sum(b.m, b.m.Const(1));
  const Ex quotient = f / d.high;
  const Pair back = Product(quotient, d.high);
  const Pair s = {quotient, (((f - back.high) - back.low) - quotient * d.low) / d.high};
  const Pair s2 = Product(s, s);
  const Ex later = s2.high * Horner(s2.high, {2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13,
                                              2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23});
  const Pair third = SumOfOrdered(f.Const(0x1.5555555555555p-1), later);
  const Pair t = Product(s2, Pair{third.high, third.low + 0x1.5555555555555p-55});
  const Pair u = SumOfOrdered(f.Const(2), t.high);
  const Pair ln = Product(s, Pair{u.high, u.low + t.low});
  const Pair log2 = Product(ln, Pair{f.Const(kLog2e), f.Const(kLog2eRest)});
  const Pair out = Sum(b.exponent, log2.high);
  return {out.high, out.low + log2.low};
}

}  // namespace

Ex Exp2F64(Ex x) { return Exp2OfSum(x, nullptr); }

Ex ExpF64(Ex x) {
  x = Clamp(x, -750, 750);  // e^x is 0 below, and infinite above
  const Pair power = Product(x, x.Const(kLog2e));
  const Ex rest = power.low + x * kLog2eRest;
  return Exp2OfSum(power.high, &rest);
}

namespace {

// log(m) = f - low for m = 1 + f in [sqrt(1/2), sqrt(2)): fdlibm's series (Sun Microsystems, 1993).
struct LogSeries {
  Ex f, half, sum;  // half: f^2 / 2. low is half - sum
};
LogSeries LogSeriesOf(Ex m) {
  const Ex f = m - 1.0, half = f * f * 0.5, s = f / (f + 2.0), s2 = s * s;
  const Ex series = s2 * Horner(s2, {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13,
                                     2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23});
  return {f, half, s * (half + series)};
}

}  // namespace

Ex LogF64(Ex x) {
  // ln(2), whose high part times an exponent is exact.
  constexpr double kHigh = 0x1.62e42feep-1, kLow = 0x1.a39ef35793c76p-33;
  const Binary b = BinaryOf(x);
  const auto [f, half, sum] = LogSeriesOf(b.m);
  return LogOfAll(x, b.exponent * kHigh - ((half - (sum + b.exponent * kLow)) - f));
}

Ex Log2F64(Ex x) {
  // As fdlibm's e_log2.c (Sun Microsystems, 1993): the logarithm is the sum of a part whose product
  // with the first bits of log2(e) is exact, and a small rest.
  constexpr double kHigh = 0x1.71547652p0, kLow = 0x1.705fc2eefa2p-33;  // log2(e)
  const Binary b = BinaryOf(x);
  const auto [f, half, sum_of_series] = LogSeriesOf(b.m);
  const Ex first = (f - half).Bitcast(Dtype::U64);
  const Ex high = (first & first.Bits(0xffffffff00000000)).Bitcast(Dtype::F64);
  const Ex low = ((f - high) - half) + sum_of_series;
  const Ex exact = high * kHigh, sum = b.exponent + exact;
  const Ex rest = ((low + high) * kLow + low * kHigh) + ((b.exponent - sum) + exact);
  return LogOfAll(x, rest + sum);
}

Ex PowF64(Ex x, Ex y) {
  const Ex a = Abs(x), inf = a.Const(INFINITY), zero = a.Const(0);
  const Pair log2 = Log2Pair(a);
  // A larger y gives 0 or infinity too.
  const Ex limited = Clamp(y, -0x1p66, 0x1p66);
  const Pair power = Product(limited, log2.high);
  const Ex rest = Clamp(power.low + limited * log2.low, -1, 1);
  const Ex out = Exp2OfSum(power.high, &rest);
  const Ex falls = y < 0.0;
  const Ex of_zero = falls.Select(inf, zero), of_inf = falls.Select(zero, inf);
  const Ex all = a.Eq(zero).Select(of_zero, a.Eq(inf).Select(of_inf, out));
  return PowOfAll(x, y, IsNan(y).Select(y, all));
}

}  // namespace uopd::codegen
