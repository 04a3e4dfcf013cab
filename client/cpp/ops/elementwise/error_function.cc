// SPDX-License-Identifier: MIT
// erf, erfc and the product with the normal distribution (GELU). Near 0 they are polynomials. Tails are e^(-x^2) times a smooth function
// of r = 1 / (1 + x), which is near 1 once it has the right factors: with the exponential as 2^n (1 + f + v) and the function as 1 + p,
// a tail is its factors s and s w, with 1 + w = (1 + p) (1 + f + v), where all but s is small enough that its rounding hardly counts.
#include <numbers>

#include "client/cpp/ops/common.h"
#include "client/cpp/ops/elementwise/error_polynomials.h"
#include "client/cpp/ops/elementwise/exp_parts.h"
#include "uopd/math.h"

namespace uopd::client::fn {
namespace {

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
  // What the quotient r lost, over the scale: its product with the sum is taken in parts that are exact.
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
