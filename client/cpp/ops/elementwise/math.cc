// SPDX-License-Identifier: MIT
// Elementwise functions made of exp2, log2, sin, sqrt and polynomials. A function is divided into
// branches, each without cancellation and with a slope that is finite where the function's is:
// gradients are those of the branches. Magnitudes are therefore not taken by Abs, whose gradient at
// 0 is 0.
#include "uopd/math.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/elementwise/operands.h"

namespace uopd::client::fn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Coefficients of polynomials, lowest power first: Chebyshev interpolation, computed with 60
// digits. Those named F32 are for f32, with an error below 1e-9 of the function; those named F64
// for f64, below 2e-17. Functions that are odd are x + x u P(u) with u = x^2, so that the rounding
// of P hardly counts.

// atan(x), for |x| <= 1.
constexpr double kAtanF32[] = {
    -0.333333332933011735,  0.199999902759472717,   -0.142853179639073033,   0.111047067886442191,
    -0.090367423420707812,  0.0741749696430051053,  -0.0576071608312811733,  0.0383274459830648437,
    -0.0192610813227658827, 0.00620725453378005039, -0.000936299471949601501};
constexpr double kAtanF64[] = {
    -0.333333333333333328,    0.199999999999995532,    -0.14285714285648404,
    0.11111111107234799,      -0.0909090896955740314,  0.0769230535467865481,
    -0.066666364357776927,    0.0588207495637129457,   -0.052612657357094544,
    0.0475208677357665614,    -0.0430811965533047127,  0.0387264021404263245,
    -0.0337501320016197343,   0.0275679422973446767,   -0.0202387069863935158,
    0.0127561729076942975,    -0.00657568334415169863, 0.00262297789190608902,
    -0.000751847252697382152, 0.0001368724853148122,   -0.0000118325054175556928};

// asin(x), for x^2 <= 1/2.
constexpr double kAsinF32[] = {0.166666666453107408,   0.0750000852303086706, 0.0446372963600293407,
                               0.0305212410595816843,  0.0206219594400169479, 0.0297783512383039168,
                               -0.0384724870651722822, 0.143270987000149303,  -0.175735771753844587,
                               0.127554733190858087};
constexpr double kAsinF64[] = {
    0.166666666666666678,  0.0749999999999841207,   0.0446428571466556338, 0.030381944084994415,
    0.0223721770065477001, 0.0173522215392011873,   0.013975730180211136,  0.0113992460148346797,
    0.0113109248289554622, -0.00329419273800909219, 0.0737734386867911415, -0.280994793227532798,
    0.952265420570821958,  -2.35352978602321232,    4.38471193924099526,   -5.88323341699902239,
    5.43638446231858858,   -3.09485476051997159,    0.838767409954492713};

// tanh(x), for x^2 <= 0.4.
constexpr double kTanhF32[] = {-0.333333331493745071,   0.133333001461889147,
                               -0.0539584616274522014,  0.0217625029073592639,
                               -0.00832318705827877452, 0.00226950168416235399};
constexpr double kTanhF64[] = {
    -0.333333333333333328,    0.133333333333329623,      -0.05396825396781054,
    0.0218694885153523469,    -0.00886323502430610598,   0.00359212076087084099,
    -0.00145576769406594546,  0.000589622148687205986,   -0.000237467565982232508,
    0.0000923274970808537096, -0.0000309291254738646702, 6.35434081485971921e-6};

// atanh(x), for |x| <= 1/2.
constexpr double kAtanhF32[] = {0.333333334373071074, 0.199999593362158268, 0.142882860428112852,
                                0.110508303952239909, 0.097519408657411682, 0.040916230718241737,
                                0.156291653818563698};
constexpr double kAtanhF64[] = {0.333333333333333328,  0.200000000000008649,  0.14285714285490105,
                                0.111111111339389688,  0.0909090788150918814, 0.0769234594027063833,
                                0.0666588635270188413, 0.058930996925900416,  0.0516076988114716203,
                                0.0544191541823458718, 0.0122924487285405317, 0.135579039136922984,
                                -0.144504911834144678, 0.210980978859757969};

// asinh(x), for |x| <= 1.
constexpr double kAsinhF32[] = {
    -0.166666666182902166,   0.0749999028345629651,  -0.0446395814327522995, 0.0303382815567897386,
    -0.0220692439508995915,  0.0161022092011612581,  -0.0106408076118267277, 0.00553051404649460614,
    -0.00188384545770130592, 0.000302824278604538941};
constexpr double kAsinhF64[] = {
    -0.166666666666666662,    0.074999999999996494,    -0.0446428571423881779,
    0.0303819444194238044,    -0.0223721583812257785,  0.0173527520528795839,
    -0.0139646992448146598,   0.0115506032235137493,   -0.00975428099141061329,
    0.00835625586954638672,   -0.00718942071198743316, 0.00609578399411653673,
    -0.00493556961432159961,  0.00365585295155196422,  -0.00235761644909154068,
    0.00125523408043933541,   -0.00051995927491869162, 0.000155169739618862867,
    -0.000029430312431991292, 2.64947771345817168e-6};

// x + x u P(u), u = x^2.
Tensor OddPolynomial(const Tensor& x, std::span<const double> f32, std::span<const double> f64) {
  const Tensor u = x * x;
  return x + x * (u * PolynomialOf(u, f32, f64));
}
// f(|x|) with the sign of x; f(0) is 0.
template <class F>
Tensor Odd(const Tensor& x, F f) {
  const Tensor negative = x < 0.0;
  const Tensor y = f(Where(negative, x.Neg(), x));
  return Where(negative, y.Neg(), y);
}

// A constant as the sum of two numbers of a dtype.
struct TwoParts {
  double high, low;
};
TwoParts HalfPi(const Tensor& x) {
  constexpr double kHalf = std::numbers::pi / 2;
  if (Is64(x)) return {kHalf, 6.1232339957367658860e-17};
  const double high = ir::RoundTo(Dtype::F32, kHalf);
  return {high, kHalf - high};
}

// The Taylor polynomial of (exp(x) - 1 - x) / x^2.
Tensor Expm1Of(const Tensor& x) {
  const int degree = Is64(x) ? 14 : 8;
  std::vector<double> c;
  for (double n = 2, factorial = 2; n <= degree + 2; ++n, factorial *= n)
    c.push_back(1 / factorial);
  const Tensor small = (x < 0.5) & (x > -0.5), near = Guarded(small, x, 0);
  return Where(small, near + near * near * Polynomial(near, c), x.Exp() - 1.0);
}

// The sum 1 + x is rounded; what it lost is c, exactly, and log(w + c) = log(w) + c / w.
Tensor Log1pOf(const Tensor& x) {
  const Tensor w = x + 1.0;
  const Tensor inside = (w > 0.0) & (w < kInf), at = Guarded(inside, w, 1);
  const Tensor c = Guarded(inside, x, 0) - (at - 1.0);
  return w.Log() + c / at;
}

// For |x| <= 1.
Tensor AtanWithin(const Tensor& x) { return OddPolynomial(x, kAtanF32, kAtanF64); }

Tensor AtanOf(const Tensor& x) {
  const Tensor over = x > 1.0, under = x < -1.0, outside = over | under;
  const Tensor inverse = Guarded(outside, x, 1).Reciprocal();
  const Tensor y = AtanWithin(Where(outside, inverse, x));
  const TwoParts half = HalfPi(x);
  return Where(over, half.high - (y - half.low), Where(under, -half.high - (y + half.low), y));
}

// For x >= 0: asin(x), or where `high` half of acos(x), which is the asin of a root.
struct ArcParts {
  Tensor high, y;
};
ArcParts ArcPartsOf(const Tensor& x) {
  const Tensor high = x > 0.7, half = (1.0 - x) * 0.5;
  const Tensor u = Where(high, half, x * x), s = Where(high, Guarded(high, half, 1).Sqrt(), x);
  return {high, s + s * (u * PolynomialOf(u, kAsinF32, kAsinF64))};
}

// exp(x) / 2. Near the end of the range exp(x) overflows before the half does: there it is exp(x -
// k ln(2)) * 2^(k - 1), with a k for which k ln(2) is nearly a number of the dtype.
Tensor HalfExp(const Tensor& x) {
  const bool wide = Is64(x);
  const double k_ln2 = wide ? 0x1.62066151add8bp10 : 0x1.45c778p7;
  const double root = wide ? 0x1p1021 : 0x1p117;  // of 2^(k - 1) for k = 2043, 235
  const Tensor far = x > (wide ? 709.0 : 80.0);
  const Tensor e = Where(far, x - k_ln2, x).Exp();
  return e * Where(far, Like(x, root), Like(x, 0.5)) * Where(far, Like(x, root), Like(x, 1));
}

// log(2 x) for large x, where x^2 would overflow.
Tensor LogOfTwice(const Tensor& x) { return x.Log() + std::numbers::ln2; }
double Large(const Tensor& x) { return Is64(x) ? 1e8 : 1e5; }
// log(a + b), with what the sum loses. REQUIRES: neither is infinite, and they are about equal.
Tensor LogOfSum(const Tensor& a, const Tensor& b) {
  const Tensor sum = a + b, part = sum - b;
  const Tensor lost = (a - part) + (b - (sum - part));
  return sum.Log() + lost / sum;
}

Tensor AsinhOf(const Tensor& x) {
  return Odd(x, [](const Tensor& a) {
    const Tensor small = a <= 1.0, large = a > Large(a);
    const Tensor s = Guarded((small | large).Not(), a, 2);
    const Tensor far =
        Where(large, LogOfTwice(Guarded(large, a, 1)), LogOfSum(s, (s * s + 1.0).Sqrt()));
    return Where(small, OddPolynomial(Guarded(small, a, 0), kAsinhF32, kAsinhF64), far);
  });
}

}  // namespace

Tensor Expm1(const Tensor& x, Site site) { return InWide("Expm1", x, site, Expm1Of); }
Tensor Log1p(const Tensor& x, Site site) { return InWide("Log1p", x, site, Log1pOf); }
Tensor Log10(const Tensor& x, Site site) {
  return InWide("Log10", x, site, [](const Tensor& v) {
    const Tensor log2 = v.Log2();
    const double scale = 0x1.34413509f79ffp-2,  // log10(2)
        high = Is64(v) ? scale : ir::RoundTo(Dtype::F32, scale),
                 low = Is64(v) ? -2.80372812778517034e-18 : scale - high;
    return log2 * high + Guarded(IsFinite(log2), log2, 0) * low;
  });
}
// A power, since the product with log2(10) would be rounded before it is an exponent.
Tensor Exp10(const Tensor& x, Site site) {
  return InWide("Exp10", x, site, [](const Tensor& v) { return Like(v, 10).Pow({v}); });
}

Tensor Tan(const Tensor& x, Site site) {
  return InWide("Tan", x, site, [](const Tensor& v) { return v.Sin() / v.Cos(); });
}
Tensor Asin(const Tensor& x, Site site) {
  return InWide("Asin", x, site, [](const Tensor& v) {
    const TwoParts half = HalfPi(v);
    return Odd(v, [&](const Tensor& a) {
      const auto [high, y] = ArcPartsOf(a);
      return Where(high, half.high - (y * 2.0 - half.low), y);
    });
  });
}
Tensor Acos(const Tensor& x, Site site) {
  return InWide("Acos", x, site, [](const Tensor& v) {
    const Tensor negative = v < 0.0;
    const auto [high, y] = ArcPartsOf(Where(negative, v.Neg(), v));
    const TwoParts half = HalfPi(v);
    const Tensor turned = half.high - (Where(negative, y.Neg(), y) - half.low);
    const Tensor twice = y * 2.0, back = half.high * 2 - (twice - half.low * 2);
    return Where(high, Where(negative, back, twice), turned);
  });
}
Tensor Atan(const Tensor& x, Site site) { return InWide("Atan", x, site, AtanOf); }

Tensor Atan2(Operand y, Operand x) {
  return OfPair("Atan2", y, x, [](const Tensor& b, const Tensor& a) {
    // Of the two quotients the one that is within [-1, 1]. That of two zeros is 0, of two
    // infinities 1.
    const Tensor size_a = a.Abs(), size_b = b.Abs(), steep = size_a < size_b;
    const Tensor zeros = (a == 0.0) & (b == 0.0), infinite = (size_a == kInf) & (size_b == kInf);
    const Tensor over = Where(infinite, Copysign(1.0, b), Where(steep, a, b));
    const Tensor under =
        Where(infinite, Copysign(1.0, a), Where(zeros, Like(a, 1), Where(steep, b, a)));
    const Tensor angle = AtanWithin(over / under);
    const Tensor side = Copysign(1.0, b).Detach();
    const TwoParts of_half = HalfPi(b);
    const Tensor half = side * of_half.high, rest = side * of_half.low;
    return Where(steep, half - (angle - rest),
                 Where(SignBit(a), (angle + rest * 2.0) + half * 2.0, angle));
  });
}

Tensor Sinh(const Tensor& x, Site site) {
  return InWide("Sinh", x, site, [](const Tensor& v) {
    std::vector<double> c;  // of the Taylor polynomial
    for (double n = 3, factorial = 6; n <= (Is64(v) ? 21 : 13);
         factorial *= (n + 1) * (n + 2), n += 2)
      c.push_back(1 / factorial);
    const Tensor small = (v < 1.0) & (v > -1.0), near = Guarded(small, v, 0);
    return Where(small, OddPolynomial(near, c, c), HalfExp(v) - HalfExp(v.Neg()));
  });
}
Tensor Cosh(const Tensor& x, Site site) {
  return InWide("Cosh", x, site, [](const Tensor& v) { return HalfExp(v) + HalfExp(v.Neg()); });
}
Tensor Tanh(const Tensor& x, Site site) {
  return InWide("Tanh", x, site, [](const Tensor& v) {
    return Odd(v, [](const Tensor& a) {
      // From 20 on the result is 1, and the slope of an exponential that overflows would be NaN.
      const Tensor small = a < 0.625, some = Where(a > 20.0, Like(a, 20), a);
      const Tensor e = (Guarded(small.Not(), some, 1) * 2.0).Exp();
      return Where(small, OddPolynomial(Guarded(small, a, 0), kTanhF32, kTanhF64),
                   1.0 - BinaryOp(2, e + 1.0, ir::Op::FDIV, "Tanh"));
    });
  });
}
Tensor Asinh(const Tensor& x, Site site) { return InWide("Asinh", x, site, AsinhOf); }
Tensor Acosh(const Tensor& x, Site site) {
  return InWide("Acosh", x, site, [](const Tensor& v) {
    // Up to 3 by asinh, so that what is near 1 keeps its digits, and the slope there is infinite,
    // not NaN. Below -1 there is no value, but 1 / sqrt(x^2 - 1) is a slope as elsewhere: that of
    // -acosh(-x).
    const Tensor negative = v < 0.0, a = Where(negative, v.Neg(), v);
    const Tensor small = a<3.0, large = a> Large(v), inside = a < 1.0;
    const Tensor near = AsinhOf(((Guarded(small & inside.Not(), a, 2) - 1.0) * 0.5).Sqrt()) * 2.0;
    const Tensor s = Guarded((small | large).Not(), a, 4);
    const Tensor far = LogOfSum(s, ((s - 1.0) * (s + 1.0)).Sqrt());
    const Tensor y = Where(large, LogOfTwice(Guarded(large, a, 1)), Where(small, near, far));
    const Tensor root = Where(inside, Guarded(inside, a - 1.0, 1).Sqrt(), y);  // NaN, and no slope
    return Where(negative, std::numeric_limits<double>::quiet_NaN() - root, root);
  });
}
Tensor Atanh(const Tensor& x, Site site) {
  return InWide("Atanh", x, site, [](const Tensor& v) {
    return Odd(v, [](const Tensor& a) {
      const Tensor small = a < 0.5, far = Guarded(small.Not(), a, 0.5);
      return Where(small, OddPolynomial(Guarded(small, a, 0), kAtanhF32, kAtanhF64),
                   Log1pOf(far * 2.0 / (1.0 - far)) * 0.5);
    });
  });
}

Tensor Round(const Tensor& x, Site site) {
  if (auto error = FirstError("Round", {&x}, site)) return *error;
  if (!ir::IsFloat(x.dtype())) return Another(x);
  const Tensor whole = x.Trunc(site), rest = (x - whole).Abs();
  const Tensor odd = whole != (whole * 0.5).Trunc() * 2.0;
  const Tensor away = (rest > 0.5) | ((rest == 0.5) & odd);
  return Where(away, whole + x.Sign(), whole).Detach(site);
}

Tensor Copysign(Operand a, Operand b) {
  return OfPair("Copysign", a, b, [](const Tensor& x, const Tensor& y) {
    // The magnitude of x has a kink at 0, where its slope is that of abs.
    const Tensor z = Where(SignBit(x) != SignBit(y), x.Neg(), x);
    return Where(x == 0.0, z.Detach(), z);
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

Tensor NanToNum(const Tensor& x, double nan, std::optional<double> posinf,
                std::optional<double> neginf, Site site) {
  if (auto error = FirstError("NanToNum", {&x}, site)) return *error;
  if (!ir::IsFloat(x.dtype())) return Another(x);
  // The largest finite value: all bits but the lowest one of the exponent, that is, just below
  // infinity.
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
