// SPDX-License-Identifier: MIT
// erf, erfc and the product with the normal distribution (GELU). Near 0 they are polynomials. Tails
// are e^(-x^2) times a smooth function of r = 1 / (1 + x), which is near 1 once it has the right
// factors: with the exponential as 2^n (1 + f + v) and the function as 1 + p, a tail is its factors
// s and s w, with 1 + w = (1 + p) (1 + f + v), where all but s is small enough that its rounding
// hardly counts.
#include <numbers>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/elementwise/exp_parts.h"
#include "uopd/math.h"

namespace uopd::client::fn {
namespace {

// Coefficients for erf, erfc and the normal distribution, lowest power first: Chebyshev
// interpolation, computed with 50 digits. Those named F32 are for f32, with an error below 4e-9 of
// 1, those named F64 for f64, below 2e-17.

// erf(x) / x - 1 of x^2, for |x| <= 1.
constexpr double kErfF32[] = {0.128379167061543415,   -0.376126384680287104,
                              0.112837824952368445,   -0.0268654307276702429,
                              0.0052210318078580228,  -0.000848408040553510629,
                              0.00011265959025606609, -9.66704457148699642e-6};
constexpr double kErfF64[] = {
    0.128379167095512567,    -0.376126389031835404,     0.112837916709450063,
    -0.0268661706432377704,  0.00522397760711642273,    -0.000854832597538969208,
    0.000120552949048397079, -0.0000149247369074196603, 1.64474247033173624e-6,
    -1.62084838018717059e-7, 1.37200645467776856e-8,    -7.79589882700214224e-10};

// (1 + x) exp(x^2) erfc(x) / kErfcScale - 1 of r - kErfcMiddle with r = kErfcScale / (1 + x), for x
// >= 0.45. M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc
// x in 0 <= x < inf, Mathematics of Computation 36, 1981, divide by a sum in this way. The scale is
// such that the function is about 0.
constexpr double kErfcScale = 0.75, kErfcMiddle = 0.25;
constexpr double kErfcF32[] = {0.0215827043220065281, 1.03989941251494866, -0.586131410918437385,
                               -1.39897751231941073,  2.18882815976917342, 1.11545457552943601,
                               -7.72789508803016543,  8.6726028826985482,  10.6890970353455776,
                               -45.585608802181002,   47.7247726344127547, -5.93559375200149501};
constexpr double kErfcF64[] = {
    0.0215827052420229723, 1.03989934799940909,  -0.586132568236325427, -1.39894279384608277,
    2.18902287448667454,   1.11011783194793141,  -7.73312829759884816,  9.00569303445032709,
    10.1451507166801951,   -54.0655045001603702, 79.3123551257540719,   37.3464912465603754,
    -438.702939231709184,  985.918868305904716,  -649.085368755634331,  -2934.33383195439126,
    11836.2128920322547,   -20863.3898656234866, 6297.56146584223822,   85365.4349685689654,
    -383143.972957667387,  957049.29286419084,   -93060.2339212120619,  -7419051.56985201298,
    16870042.6445093994,   5782174.87994365597,  -63451486.4536093372,  61935797.3365487039};

// 2 (1 + x) exp(x^2 / 2) N(-x) - 1 of r - middle with r = 1 / (1 + x), for x >= 0.64, where N is
// the normal distribution.
constexpr double kNormalMiddleF32 = 0.375, kNormalMiddleF64 = 0.34375;
constexpr double kNormalF32[] = {
    0.0221761428846421146, 0.289772118316923276, -0.839684406170050196, 0.478114594187999321,
    0.610116467226005519,  -1.7875220779382614,  1.99057599669194954,   -0.141253813796657653,
    -3.79670792654056523,  10.3418626543287625,  -20.1455930534363261,  -6.98641464556468318,
    81.4751348903953354};
constexpr double kNormalF64[] = {
    0.0122868057156584624, 0.343569726932940398, -0.880358545520329568, 0.383195572810331275,
    0.918393056598197562,  -2.1574008182542864,  1.88940955263664442,   1.32265668838529794,
    -7.57732201640421729,  13.667270675732471,   -11.3861752065239208,  -11.645587138704084,
    64.8803110488716221,   -137.107990682344243, 166.93966123275596,    -20.672771570792316,
    -476.565813092442433,  1622.73188869409779,  -3904.36483736448487,  2723.39825331191163,
    16441.3286584714221,   -5211.0793405539616,  -145794.017846665584,  -170116.103607274994,
    1614537.06430857886,   394287.067234401682,  -7572904.34416367337,  918571.711371789384,
    13316769.9079650041,   -1462425.96628258175};

// (N(x) - 1/2) / x of x^2, for |x| <= 0.65.
constexpr double kNormalNearF32[] = {0.398942280170825123, -0.0664903527596621154,
                                     0.00997303831765076349, -0.0011838667137547351,
                                     0.00010592518416621258};
constexpr double kNormalNearF64[] = {0.398942280401432678,    -0.0664903800669054456,
                                     0.00997355701003575704,  -0.00118732821547863794,
                                     0.000115434687588172399, -9.44465601174028249e-6,
                                     6.65968014794093501e-7,  -4.12222021590653899e-8,
                                     2.26445856332864592e-9,  -1.02737494027179862e-10};

// 1 / (1 + x) for x > 0, with what the sum 1 + x lost.
struct Inverse {
  Tensor sum, lost, r;
};
Inverse InverseOf(const Tensor& x, double over) {
  const Tensor sum = x + 1.0;
  return {sum, x - (sum - 1.0), over / sum};
}

// e^(-scale x^2) with gradients of all orders. Its argument is h + l, exactly.
Tensor ExpOfSquare(const Tensor& x, double scale) {
  const Tensor near = Where(x < -100.0, Like(x, -100), Where(x > 100.0, Like(x, 100), x));
  const Tensor c = near * (Is64(x) ? 0x1.0000002p27 : 0x1.001p12), a = c - (c - near), b = near - a,
               square = near * near;
  const Tensor l = ((a * a - square) + a * b * 2.0) + b * b;
  const Tensor e = (square * -scale).Exp();
  return e - e * (l * scale);
}

// erf within [-1, 1].
Tensor ErfWithin(const Tensor& x) { return x + x * PolynomialOf(x * x, kErfF32, kErfF64); }

// The smallest operand of tails.
constexpr double kErfcFrom = 0.45, kNormalFrom = 0.64;

// erfc(x) for kErfcFrom <= x, until it is 0.
Tensor ErfcTail(const Tensor& x) {
  const Inverse i = InverseOf(x, kErfcScale);
  const Tensor p = PolynomialOf(i.r - kErfcMiddle, kErfcF32, kErfcF64);
  // What the quotient r lost, over the scale: its product with the sum is taken in parts that are
  // exact.
  const Tensor high = HighBits(i.r), sum = HighBits(i.sum);
  const Tensor first = kErfcScale - high * sum;
  const Tensor more = (first - high * (i.sum - sum)) - (i.r - high) * i.sum;
  const Tensor lost = (more - i.r * i.lost) * (1 / kErfcScale);
  const ExpParts e = ExpPartsOfSquare(x, 1);
  // What r lost counts in all factors. The slope of p is about 1, so there it counts r times.
  const Tensor u = e.f + e.v, all = MulAdd(lost, i.r, lost);
  const Tensor w = e.f + (p + (MulAdd(p, u, e.v) + MulAdd(all, p + u, all)));
  return MulAdd(i.r, w, i.r) * PowerOfTwo(e.n);
}

// Of x >= kNormalFrom, until they are 0: the normal distribution at -x, and its product with x.
struct NormalTail {
  Tensor normal, product;
};
NormalTail NormalTailOf(const Tensor& x) {
  const Inverse i = InverseOf(x, 1);
  const Tensor p = Is64(x) ? Polynomial(i.r - kNormalMiddleF64, kNormalF64)
                           : Polynomial(i.r - kNormalMiddleF32, kNormalF32);
  // x / (1 + x) is 1 - r.
  const Tensor s = 1.0 - i.r, lost = MulAdd(i.r * i.r, i.lost, (1.0 - s) - i.r);
  const ExpParts e = ExpPartsOfSquare(x, 0.5);
  const Tensor w = e.f + (p + MulAdd(p, e.f + e.v, e.v)), half = PowerOfTwo(e.n) * 0.5;
  return {MulAdd(i.r, w, i.r) * half, (s + MulAdd(s, w, MulAdd(lost, w, lost))) * half};
}

// x, or the limit for larger ones. NaN for NaN.
Tensor AtMost(const Tensor& x, double limit) { return Where(x > limit, Like(x, limit), x); }

constexpr double kTwoOverRootPi = 2 * std::numbers::inv_sqrtpi;

}  // namespace

Tensor TimesNormal(const Tensor& x) {
  const Tensor far = (x > kNormalFrom) | (x < -kNormalFrom), negative = x < 0.0;
  const double limit = Is64(x) ? 38.7 : 14.4;  // the tail is 0 there
  const Tensor size = AtMost(Where(far, Where(negative, x.Neg(), x), Like(x, 1)), limit);
  const NormalTail tail = NormalTailOf(size);
  const Tensor near = Guarded(far.Not(), x, 0);
  const Tensor rise = PolynomialOf(near * near, kNormalNearF32, kNormalNearF64);
  const Tensor value = Where(far, Where(negative, tail.product.Neg(), x - tail.product),
                             near * MulAdd(near, rise, 0.5));
  // The slope is the distribution plus x times its own slope.
  const Tensor some = Where(x < -limit, Like(x, -limit), AtMost(x, limit));
  const Tensor density = ExpOfSquare(some, 0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  const Tensor normal =
      Where(far, Where(negative, tail.normal, 1.0 - tail.normal), MulAdd(near, rise, 0.5));
  return WithSlope(value, x, WithSlope(normal, x, density) + some * density);
}

Tensor Erf(const Tensor& x, Site site) {
  return InWide("Erf", x, site, [](const Tensor& v) {
    const Tensor negative = v < 0.0, a = Where(negative, v.Neg(), v), far = a > 1.0;
    const Tensor tail = ErfcTail(AtMost(Guarded(far, a, 1), 7));
    const Tensor y = Where(far, 1.0 - tail, ErfWithin(Guarded(far.Not(), a, 0)));
    return WithSlope(Where(negative, y.Neg(), y), v, ExpOfSquare(v, 1) * kTwoOverRootPi);
  });
}
Tensor Erfc(const Tensor& x, Site site) {
  return InWide("Erfc", x, site, [](const Tensor& v) {
    const Tensor up = v > kErfcFrom, down = v < -1.0;
    const Tensor size = Where(up, v, Where(down, v.Neg(), Like(v, 1)));
    const Tensor tail = ErfcTail(AtMost(size, Is64(v) ? 27.3 : 10.2));
    const Tensor near = 1.0 - ErfWithin(Guarded((up | down).Not(), v, 0));
    return WithSlope(Where(up, tail, Where(down, 2.0 - tail, near)), v,
                     ExpOfSquare(v, 1) * -kTwoOverRootPi);
  });
}

}  // namespace uopd::client::fn
