// SPDX-License-Identifier: MIT
// Elementwise functions made of exp2, log2, sin, sqrt and polynomials. A function is divided into branches,
// each without cancellation and with a slope that is finite where the function's is: gradients are those of
// the branches. Magnitudes are therefore not taken by Abs, whose gradient at 0 is 0.
#include "uopd/math.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/operands.h"
#include "client/cpp/ops/polynomials.h"

namespace uopd::client::fn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

bool Is64(const Tensor& x) { return x.dtype() == Dtype::F64; }
Tensor PolynomialOf(const Tensor& u, std::span<const double> f32, std::span<const double> f64) {
  return Polynomial(u, Is64(u) ? f64 : f32);
}
// f(|x|) with the sign of x; f(0) is 0.
template <class F>
Tensor Odd(const Tensor& x, F f) {
  const Tensor negative = x < 0.0;
  const Tensor y = f(Where(negative, x.Neg(), x));
  return Where(negative, y.Neg(), y);
}

// The Taylor polynomial of (exp(x) - 1) / x.
Tensor Expm1Of(const Tensor& x) {
  const int degree = Is64(x) ? 15 : 9;
  std::vector<double> c;
  for (double n = 1, factorial = 1; n <= degree + 1; ++n, factorial *= n)
    c.push_back(1 / factorial);
  const Tensor small = (x < 0.5) & (x > -0.5), near = Guarded(small, x, 0);
  return Where(small, near * Polynomial(near, c), x.Exp() - 1.0);
}

// Near 0: log(1 + x) = 2 artanh(s) with s = x / (2 + x).
Tensor Log1pOf(const Tensor& x) {
  const int terms = Is64(x) ? 12 : 6;
  std::vector<double> c;
  for (int n = 0; n < terms; ++n) c.push_back(2.0 / (2 * n + 1));
  const Tensor small = (x < 0.4) & (x > -0.29), near = Guarded(small, x, 0);
  const Tensor s = near / (near + 2.0);
  const Tensor far = Where(small, Like(x, 1), x);
  return Where(small, s * Polynomial(s * s, c), (far + 1.0).Log());
}

// For 0 <= x <= 1, or with both signs.
Tensor AtanWithin(const Tensor& x) {
  const double middle = std::numbers::sqrt2 - 1;  // tan(pi / 8)
  const Tensor high = x > middle, low = x < -middle;
  // atan(x) = pi/4 + atan((x - 1) / (x + 1))
  const Tensor up = Guarded(high, x, 1), down = Guarded(low, x, -1);
  const Tensor s = Where(high, (up - 1.0) / (up + 1.0), Where(low, (down + 1.0) / (1.0 - down), x));
  const Tensor y = s * PolynomialOf(s * s, kAtanF32, kAtanF64);
  const double quarter = std::numbers::pi / 4;
  return Where(high, y + quarter, Where(low, y - quarter, y));
}

Tensor AtanOf(const Tensor& x) {
  const Tensor over = x > 1.0, under = x < -1.0, outside = over | under;
  const Tensor inverse = Guarded(outside, x, 1).Reciprocal();
  const Tensor y = AtanWithin(Where(outside, inverse, x));
  const double half = std::numbers::pi / 2;
  return Where(over, half - y, Where(under, -half - y, y));
}

// For x >= 0. Products of roots instead of a root of a product, so that the slope at 1 is infinite, not NaN.
Tensor AsinOf(const Tensor& x) {
  const Tensor root = (1.0 - x).Sqrt() * (x + 1.0).Sqrt();
  return AtanOf(x / (root + 1.0)) * 2.0;
}
Tensor AcosPositive(const Tensor& x) { return AtanOf(((1.0 - x) / (x + 1.0)).Sqrt()) * 2.0; }

// erf within [-1, 1]; erfc from 1 on.
Tensor ErfWithin(const Tensor& x) { return x * PolynomialOf(x * x, kErfF32, kErfF64); }
Tensor ErfcTail(const Tensor& x) {
  const Tensor t = 1.0 - 2 * kErfcMiddle / (x + kErfcMiddle);
  return (x * x).Neg().Exp() * PolynomialOf(t, kErfcF32, kErfcF64) / (x * 2.0 + 1.0);
}

// exp(x) / 2 is written as a product, because exp(x) overflows before sinh does.
Tensor HalfExp(const Tensor& x) {
  const Tensor root = (x * 0.5).Exp();
  return root * 0.5 * root;
}

// log(2 x) for large x, where x^2 would overflow.
Tensor LogOfTwice(const Tensor& x) { return x.Log() + std::numbers::ln2; }
double Large(const Tensor& x) { return Is64(x) ? 1e8 : 1e5; }

}  // namespace

Tensor Expm1(const Tensor& x, Site site) { return InWide("Expm1", x, site, Expm1Of); }
Tensor Log1p(const Tensor& x, Site site) { return InWide("Log1p", x, site, Log1pOf); }
Tensor Log10(const Tensor& x, Site site) {
  return InWide("Log10", x, site, [](const Tensor& v) {
    return v.Log2() * (std::numbers::ln2 / std::numbers::ln10);
  });
}
Tensor Exp10(const Tensor& x, Site site) {
  return InWide("Exp10", x, site, [](const Tensor& v) {
    return (v * (std::numbers::ln10 / std::numbers::ln2)).Exp2();
  });
}

Tensor Tan(const Tensor& x, Site site) {
  return InWide("Tan", x, site, [](const Tensor& v) {
    // cos(x) = sin(pi/2 - x), with pi/2 as the sum of two numbers of the dtype.
    const double high =
        Is64(v) ? std::numbers::pi / 2 : ir::RoundTo(Dtype::F32, std::numbers::pi / 2);
    const double low = Is64(v) ? 6.1232339957367658860e-17 : std::numbers::pi / 2 - high;
    return v.Sin() / ((high - Where(v < 0.0, v.Neg(), v)) + low).Sin();
  });
}
Tensor Asin(const Tensor& x, Site site) {
  return InWide("Asin", x, site, [](const Tensor& v) { return Odd(v, AsinOf); });
}
Tensor Acos(const Tensor& x, Site site) {
  return InWide("Acos", x, site, [](const Tensor& v) {
    const Tensor negative = v < 0.0;
    const Tensor y = AcosPositive(Where(negative, v.Neg(), v));
    return Where(negative, std::numbers::pi - y, y);
  });
}
Tensor Atan(const Tensor& x, Site site) { return InWide("Atan", x, site, AtanOf); }

Tensor Atan2(Operand y, Operand x) {
  return OfPair("Atan2", y, x, [](const Tensor& b, const Tensor& a) {
    // Of the two quotients the one that is within [-1, 1]. That of two zeros is 0, of two infinities 1.
    const Tensor size_a = a.Abs(), size_b = b.Abs(), steep = size_a < size_b;
    const Tensor zeros = (a == 0.0) & (b == 0.0), infinite = (size_a == kInf) & (size_b == kInf);
    const Tensor over = Where(infinite, Copysign(1.0, b), Where(steep, a, b));
    const Tensor under =
        Where(infinite, Copysign(1.0, a), Where(zeros, Like(a, 1), Where(steep, b, a)));
    const Tensor angle = AtanWithin(over / under);
    const Tensor half = Copysign(std::numbers::pi / 2, b).Detach();
    return Where(steep, half - angle, Where(SignBit(a), angle + half * 2.0, angle));
  });
}

Tensor Sinh(const Tensor& x, Site site) {
  return InWide("Sinh", x, site, [](const Tensor& v) {
    std::vector<double> c;
    for (double n = 1, factorial = 1; n <= (Is64(v) ? 21 : 13);
         factorial *= (n + 1) * (n + 2), n += 2)
      c.push_back(1 / factorial);
    const Tensor small = (v < 1.0) & (v > -1.0), near = Guarded(small, v, 0);
    return Where(small, near * Polynomial(near * near, c), HalfExp(v) - HalfExp(v.Neg()));
  });
}
Tensor Cosh(const Tensor& x, Site site) {
  return InWide("Cosh", x, site, [](const Tensor& v) { return HalfExp(v) + HalfExp(v.Neg()); });
}
Tensor Tanh(const Tensor& x, Site site) {
  return InWide("Tanh", x, site, [](const Tensor& v) {
    // For |x| over 20 the result is 1, and exp would overflow from 45 on.
    return Odd(v, [](const Tensor& a) {
      const Tensor far = a > 20.0;
      const Tensor e = Expm1Of(Guarded(far.Not(), a, 0) * 2.0);
      return Where(far, Like(a, 1), e / (e + 2.0));
    });
  });
}
Tensor Asinh(const Tensor& x, Site site) {
  return InWide("Asinh", x, site, [](const Tensor& v) {
    return Odd(v, [](const Tensor& a) {
      const Tensor large = a > Large(a), s = Guarded(large.Not(), a, 0);
      const Tensor square = s * s;
      return Where(large, LogOfTwice(Guarded(large, a, 1)),
                   Log1pOf(s + square / ((square + 1.0).Sqrt() + 1.0)));
    });
  });
}
Tensor Acosh(const Tensor& x, Site site) {
  return InWide("Acosh", x, site, [](const Tensor& v) {
    const Tensor large = v > Large(v), t = Guarded(large.Not(), v, 2) - 1.0;
    const Tensor y =
        Where(large, LogOfTwice(Guarded(large, v, 1)), Log1pOf(t + (t * (t + 2.0)).Sqrt()));
    return Where(v < 1.0, Like(v, std::numeric_limits<double>::quiet_NaN()), y);
  });
}
Tensor Atanh(const Tensor& x, Site site) {
  return InWide("Atanh", x, site, [](const Tensor& v) {
    return Odd(v, [](const Tensor& a) { return Log1pOf(a * 2.0 / (1.0 - a)) * 0.5; });
  });
}

Tensor Erf(const Tensor& x, Site site) {
  return InWide("Erf", x, site, [](const Tensor& v) {
    return Odd(v, [](const Tensor& a) {
      const Tensor far = a > 1.0;
      return Where(far, 1.0 - ErfcTail(Guarded(far, a, 1)), ErfWithin(Guarded(far.Not(), a, 0)));
    });
  });
}
Tensor Erfc(const Tensor& x, Site site) {
  return InWide("Erfc", x, site, [](const Tensor& v) {
    const Tensor up = v > 1.0, down = v < -1.0;
    const Tensor tail = ErfcTail(Where(up, v, Where(down, v.Neg(), Like(v, 1))));
    const Tensor near = 1.0 - ErfWithin(Guarded((up | down).Not(), v, 0));
    return Where(up, tail, Where(down, 2.0 - tail, near));
  });
}

Tensor Round(const Tensor& x, Site site) {
  if (auto error = FirstError("Round", {&x}, site)) return *error;
  if (!ir::IsFloat(x.dtype())) return x;
  const Tensor whole = x.Trunc(site), rest = (x - whole).Abs();
  const Tensor odd = whole != (whole * 0.5).Trunc() * 2.0;
  const Tensor away = (rest > 0.5) | ((rest == 0.5) & odd);
  return Where(away, whole + x.Sign(), whole).Detach(site);
}

Tensor Copysign(Operand a, Operand b) {
  return OfPair("Copysign", a, b, [](const Tensor& x, const Tensor& y) {
    return Where(SignBit(x) != SignBit(y), x.Neg(), x);
  });
}

Tensor IsInf(const Tensor& x, Site site) {
  if (auto error = FirstError("IsInf", {&x}, site)) return *error;
  if (!ir::IsFloat(x.dtype())) return Operand(x, site) != x;
  return (Operand(x, site) == kInf) | (Operand(x, site) == -kInf);
}
Tensor IsFinite(const Tensor& x, Site site) {
  if (auto error = FirstError("IsFinite", {&x}, site)) return *error;
  if (!ir::IsFloat(x.dtype())) return Operand(x, site) == x;
  return (x < kInf) & (x > -kInf);
}
Tensor IsClose(Operand a, Operand b, double rtol, double atol, bool equal_nan) {
  const FloatPair p = FloatPairOf("IsClose", a, b);
  if (p.error) return *p.error;
  const Tensor near = (p.a - p.b).Abs() <= p.b.Abs() * rtol + atol;
  Tensor close = (p.a == p.b) | (near & IsFinite(p.a) & IsFinite(p.b));
  return equal_nan ? close | (p.a.IsNan() & p.b.IsNan()) : close;
}

Tensor Lerp(Operand a, Operand b, Operand weight) {
  const FloatPair ends = FloatPairOf("Lerp", a, b);
  if (ends.error) return *ends.error;
  const FloatPair w = FloatPairOf("Lerp", {ends.a, a.site()}, weight);
  if (w.error) return *w.error;
  const Tensor t = w.b.Cast(ends.a.dtype()), step = ends.b - ends.a;
  // The end that is nearer: so a weight of 1 gives b exactly.
  const Dtype dtype = weight.tensor() == nullptr
                          ? ends.dtype
                          : FloatOf(ir::Promote(ends.dtype, weight.tensor()->dtype()));
  return Where(t < 0.5, ends.a + t * step, ends.b - step * (1.0 - t)).Cast(dtype, a.site());
}

Tensor LogAddExp(Operand a, Operand b) {
  return OfPair("LogAddExp", a, b, [](const Tensor& x, const Tensor& y) {
    // The difference of equal infinities is NaN, and of equal operands 0.
    const Tensor same = x == y, less = x < y;
    const Tensor gap = Where(less, x - y, y - x);
    return x.Maximum(y) +
           Where(same, Like(gap, std::numbers::ln2), Log1pOf(Guarded(same.Not(), gap, 0).Exp()));
  });
}

Tensor Hypot(Operand a, Operand b) {
  return OfPair("Hypot", a, b, [](const Tensor& x, const Tensor& y) {
    const Tensor size_x = x.Abs(), size_y = y.Abs(), less = size_x < size_y;
    const Tensor large = Where(less, size_y, size_x), small = Where(less, size_x, size_y);
    const Tensor plain = (large == 0.0) | (large == kInf) | large.IsNan() | small.IsNan();
    const Tensor q = small / Where(plain, Like(large, 1), large);
    const Tensor infinite = (size_x == kInf) | (size_y == kInf);
    return Where(infinite, Like(large, kInf),
                 Where(plain, large + small, large * (q * q + 1.0).Sqrt()));
  });
}

Tensor Fmod(Operand a, Operand b) {
  Operands v("Fmod", {&a, &b});
  if (!v.ok()) return v.failed();
  if (!ir::IsFloat(v.dtype())) {
    if (v.dtype() == Dtype::Bool) v.set_dtype(Dtype::I32);
    return v.Make(ir::Alu(v.ctx(), ir::Op::CMOD, {v[0], v[1]}));
  }
  return OfPair("Fmod", a, b, [](const Tensor& x, const Tensor& y) {
    // A quotient that was rounded to the next integer leaves a remainder of the other sign.
    const Tensor size = y.Abs();
    const Tensor rest = x - (x / y).Trunc() * y;
    const Tensor up = (rest < 0.0) & (x > 0.0), down = (rest > 0.0) & (x < 0.0);
    const Tensor mended = Where(up, rest + size, Where(down, rest - size, rest));
    return Where((size == kInf) & IsFinite(x), x, mended);
  });
}

Tensor Div(Operand a, Operand b, Rounding rounding) {
  if (rounding == Rounding::kNone) return a / b;
  Operands v("Div", {&a, &b});
  if (!v.ok()) return v.failed();
  const bool floor = rounding == Rounding::kFloor;
  if (ir::IsFloat(v.dtype())) return floor ? (a / b).Floor(v.site()) : (a / b).Trunc(v.site());
  if (v.dtype() == Dtype::Bool) v.set_dtype(Dtype::I32);
  return v.Make(ir::Alu(v.ctx(), floor ? ir::Op::FLOORDIV : ir::Op::CDIV, {v[0], v[1]}));
}

Tensor NanToNum(const Tensor& x, double nan, std::optional<double> posinf,
                std::optional<double> neginf, Site site) {
  if (auto error = FirstError("NanToNum", {&x}, site)) return *error;
  if (!ir::IsFloat(x.dtype())) return x;
  // The largest finite value: all bits but the lowest one of the exponent, that is, just below infinity.
  const Dtype d = x.dtype();
  const double top = d == Dtype::F8E4M3   ? 448
                     : d == Dtype::F8E5M2 ? 57344
                     : d == Dtype::F16    ? 65504
                     : d == Dtype::BF16   ? 0x1.FEp127
                     : d == Dtype::F32    ? 0x1.FFFFFEp127
                                          : std::numeric_limits<double>::max();
  const Tensor low = Where(Operand(x, site) == -kInf, Like(x, neginf.value_or(-top)), x);
  const Tensor both = Where(Operand(x, site) == kInf, Like(x, posinf.value_or(top)), low);
  return Where(x.IsNan(site), Like(x, nan), both);
}

Tensor MaskedFill(const Tensor& x, const Tensor& mask, Operand value, Site site) {
  if (auto error = FirstError("MaskedFill", {&x, &mask}, site)) return *error;
  if (mask.dtype() != Dtype::Bool)
    return Wrong(x, "MaskedFill", site, Cat("a mask of ", ir::Name(mask.dtype()), ", not bool"));
  Tensor fill;
  if (value.tensor() == nullptr) {
    const absl::Status fits = CheckNumber(x.dtype(), value);
    if (!fits.ok()) return Poisoned(x.state()->graph, Located("MaskedFill", site, fits));
    fill = NumberLike(x, x.dtype(), value);
  } else {
    if (auto error = FirstError("MaskedFill", {&x, value.tensor()}, site)) return *error;
    fill = value.tensor()->Cast(x.dtype(), site);
  }
  Tensor out = Where({mask, site}, fill, x);
  if (!out.status().ok() || out.dims() != x.dims()) {
    return Wrong(x, "MaskedFill", site,
                 Cat("a mask of shape ", Text(mask.dims()), " and a value of shape ",
                     Text(fill.dims()), " for shape ", Text(x.dims())));
  }
  return out;
}

}  // namespace uopd::client::fn
