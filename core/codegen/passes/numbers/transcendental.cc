// SPDX-License-Identifier: MIT
// EXP2, EXP, LOG2, LOG, SIN, COS and POW of f32, and what they share with those of f64
// (transcendental_f64.cc, sin_f64.cc).
#include "core/codegen/passes/numbers/transcendental.h"

#include <cmath>
#include <numbers>

#include "core/codegen/passes/numbers/decompose.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/exp2.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr double kInf = INFINITY;

// The nearest integer of an f64 with |x| < 2^51; NaN for NaN.
Ex Nearest(Ex x) { return (x + 0x1.8p52) - 0x1.8p52; }

constexpr double kLn2 = std::numbers::ln2;

constexpr double kShift =
    0x1.8p23;  // added to x, it leaves the nearest integer to x in the low mantissa bits

// p * 2^n for n = shifted - kShift. In two factors: the first product is exact, so a denormal
// result is rounded once.
Ex ScaledF32(Ex p, Ex shifted) {
  const Ex whole = shifted.Bitcast(Dtype::I32) - 0x4b400000;
  const Ex half = whole >> 1;
  const Ex s1 = ((half + 127) << 23).Bitcast(Dtype::F32),
           s2 = ((whole - half + 127) << 23).Bitcast(Dtype::F32);
  return p * s1 * s2;
}

Ex Exp2F32(Ex x) {
  x = Clamp(x, -151, 129);
  const Ex shifted = x + kShift;
  return ScaledF32(Horner(x - (shifted - kShift), ir::kExp2Polynomial), shifted);
}

// e^x is 0 below this range and infinite above it.
Ex ClampForExp(Ex x) { return Clamp(x, -105, 90); }

Ex ExpF32(Ex x) {
  x = ClampForExp(x);
  const Ex shifted = x.Fma(x.Const(std::numbers::log2e), x.Const(kShift)), n = shifted - kShift;
  const Ex f = n.Fma(x.Const(-ir::kLn2Low), n.Fma(x.Const(-ir::kLn2High), x));
  // 1 + (f + f^2 q(f)): without multiply-adds the last two of Horner's steps would round more.
  constexpr size_t kTerms = std::size(ir::kExpPolynomial);
  Ex q = f.Const(ir::kExpPolynomial[kTerms - 1]);
  for (size_t i = kTerms - 1; i-- > 2;) q = q.Fma(f, f.Const(ir::kExpPolynomial[i]));
  return ScaledF32((f * f).Fma(q, f) + 1.0, shifted);
}

// x = 2^exponent * (1 + f) for x > 0, f in [sqrt(1/2) - 1, sqrt(2) - 1], and log(1 + f) = f + rest.
struct LogParts {
  Ex exponent, f, rest;
};
LogParts LogPartsOf(Ex x) {
  // The polynomial P in log(1 + f) = f - f^2/2 + f^3 P(f) (S. Moshier, Cephes).
  constexpr double c[] = {3.3333331174E-1,  -2.4999993993E-1, 2.0000714765E-1,
                          -1.6668057665E-1, 1.4249322787E-1,  -1.2420140846E-1,
                          1.1676998740E-1,  -1.1514610310E-1, 7.0376836292E-2};
  const Ex tiny = x < 0x1p-126;
  const Ex bits = tiny.Select(x * 0x1p32, x).Bitcast(Dtype::I32);
  const Ex e = (bits - 0x3f3504f3) >> 23;
  const Ex f = (bits - (e << 23)).Bitcast(Dtype::F32) - 1.0;
  const Ex exponent = (e - tiny.Select(e.Const(32), e.Const(0))).Cast(Dtype::F32);
  const Ex f2 = f * f;
  return {exponent, f, (f2 * f).Fma(Horner(f, c), f2 * -0.5)};
}

Ex Log2F32(Ex x) {
  constexpr double kLog2e = std::numbers::log2e;
  const auto [exponent, f, rest] = LogPartsOf(x);
  const double high = 0x1.716p0;  // 12 bits
  const Ex low = f.Fma(f.Const(kLog2e - high), rest * kLog2e);
  return LogOfAll(x, f.Fma(f.Const(high), low) + exponent);
}

Ex LogF32(Ex x) {
  const auto [exponent, f, rest] = LogPartsOf(x);
  const Ex near = f + exponent.Fma(f.Const(ir::kLn2Low), rest);
  return LogOfAll(x, exponent.Fma(f.Const(ir::kLn2High), near));
}

// The sine of x + turns * pi/2.
Ex SinF32(Ex x, int turns) {
  // Payne-Hanek range reduction: 2/pi in pieces of 24 bits. The product of a piece and an f32 is
  // exact in f64, so x * 2/pi modulo 4 is exact for every x.
  constexpr double kTwoOverPi[] = {0xA2F983p-24,  0x6E4E44p-48,  0x1529FCp-72,
                                   0x2757D1p-96,  0xF534DDp-120, 0xC0DB62p-144,
                                   0x95993Cp-168, 0x439041p-192, 0xFE5163p-216};
  const Ex wide = x.Cast(Dtype::F64);
  Ex s = wide.Const(0), quadrant = wide.Const(0);
  for (double piece : kTwoOverPi) {
    const Ex t = wide * piece;
    s = s + (t - (t * 0.25).Alu(Op::TRUNC) * 4.0);
    const Ex n = Nearest(s);
    s = s - n;
    quadrant = quadrant + n;
  }
  const Ex r = s * (std::numbers::pi / 2), r2 = r * r;
  const Ex sin = r * Horner(r2, {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800,
                                 1.0 / 6227020800});
  const Ex cos =
      Horner(r2, {1, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600});
  Ex q = quadrant.Cast(Dtype::I32);
  if (turns != 0) q = q + turns;
  const Ex odd = (q & q.Const(1)).Ne(q.Const(0)), negative = (q & q.Const(2)).Ne(q.Const(0));
  const Ex value = odd.Select(cos, sin);
  const Ex out = negative.Select(-value, value).Cast(Dtype::F32);
  if (turns != 0) return out;
  return x.Eq(x.Const(0)).Select(x, out);  // sin(-0) is -0
}

// log2 and exp2 in f64 for POW, with a relative error of about 1e-12. REQUIRES: a >= 0, and a is no
// f64 denormal.
Ex Log2Wide(Ex a) {
  const Ex bits = a.Bitcast(Dtype::I64);
  const Ex e = (bits - bits.Bits(0x3fe6a09e667f3bcd)) >> 52;
  const Ex m = (bits - (e << 52)).Bitcast(Dtype::F64);
  const Ex s = (m - 1.0) / (m + 1.0), s2 = s * s;
  const Ex series =
      Horner(s2, {1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17});
  Ex out = e.Cast(Dtype::F64) + s * series * (2 * std::numbers::log2e);
  out = a.Eq(a.Const(kInf)).Select(a, out);
  return a.Eq(a.Const(0)).Select(a.Const(-kInf), out);
}
Ex Exp2Wide(Ex x) {
  double c[12] = {1};
  for (int i = 1; i < 12; ++i) c[i] = c[i - 1] * kLn2 / i;
  x = Clamp(x, -1000, 1000);  // 2^x is far outside of the range of f32 at both ends
  const Ex q = Nearest(x);
  const Ex p = Horner(x - q, c);
  return p * ((q.Cast(Dtype::I64) + 1023) << 52).Bitcast(Dtype::F64);
}

Ex PowF32(Ex x, Ex y) {
  const Ex a = Abs(x);
  const Ex out = Exp2Wide(y.Cast(Dtype::F64) * Log2Wide(a.Cast(Dtype::F64))).Cast(Dtype::F32);
  return PowOfAll(x, y, out);
}

}  // namespace

Ex Abs(Ex x) {
  const bool wide = x.dtype() == Dtype::F64;
  const Ex bits = x.Bitcast(wide ? Dtype::U64 : Dtype::U32);
  return (bits & bits.Bits(wide ? ~uint64_t{0} >> 1 : 0x7fffffffu)).Bitcast(x.dtype());
}
Ex Clamp(Ex x, double low, double high) {
  const Ex above = (x < low).Select(x.Const(low), x);
  return (high < above).Select(above.Const(high), above);
}

Ex LogOfAll(Ex x, Ex log) {
  const Ex inf = x.Const(kInf);
  Ex out = x.Eq(inf).Select(inf, log);
  out = (x < 0.0).Select(x.Const(NAN), out);
  out = x.Eq(x.Const(0)).Select(x.Const(-kInf), out);
  return IsNan(x).Select(x, out);
}

Ex PowOfAll(Ex x, Ex y, Ex of_magnitude) {
  const Ex a = Abs(x);
  Ex out = of_magnitude;
  // |x| = 1 with an infinite y computes 0 * inf above; the result is 1.
  out = a.Eq(a.Const(1)).Select(IsNan(y).Select(y, a.Const(1)), out);
  const Ex whole = y.Alu(Op::TRUNC).Eq(y), half = y * 0.5,
           odd = whole & half.Alu(Op::TRUNC).Ne(half);
  const bool wide = x.dtype() == Dtype::F64;
  const Ex bits = x.Bitcast(wide ? Dtype::U64 : Dtype::U32);
  const Ex flips = odd & (bits >> (wide ? 63 : 31)).Ne(bits.Bits(0));
  out = flips.Select(-out, out);
  out = ((x < 0.0) & x.Ne(x.Const(-kInf)) & whole.Not()).Select(x.Const(NAN), out);
  out = IsNan(x).Select(x, out);
  return (y.Eq(y.Const(0)) | x.Eq(x.Const(1))).Select(x.Const(1), out);
}

UOp DecomposeTranscendentals(ir::UOpContext& ctx, UOp sink, const Target& target, bool flushes) {
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> s) -> UOp {
    if (u.dtype() == Dtype::F32) {
      switch (u.op()) {
        case Op::EXP2:
          if (target.has_exp2)
            return ctx.Make(u.op(), u.dtype(), s, {}, flushes ? ir::kFlushes : 0);
          if (target.has_scaling) return ctx.Make(u.op(), u.dtype(), s, {}, ir::kByScaling);
          return Exp2F32({ctx, s[0]});
        case Op::EXP:
          if (target.has_scaling)
            return ctx.Make(u.op(), u.dtype(), {ClampForExp({ctx, s[0]})}, {}, ir::kByScaling);
          return ExpF32({ctx, s[0]});
        case Op::LOG2:
          return Log2F32({ctx, s[0]});
        case Op::LOG:
          return LogF32({ctx, s[0]});
        case Op::SIN:
          return SinF32({ctx, s[0]}, 0);
        case Op::COS:
          return SinF32({ctx, s[0]}, 1);
        case Op::POW:
          return PowF32({ctx, s[0]}, {ctx, s[1]});
        default:
          break;
      }
    }
    if (u.dtype() == Dtype::F64) {
      switch (u.op()) {
        case Op::EXP2:
          return Exp2F64({ctx, s[0]});
        case Op::EXP:
          return ExpF64({ctx, s[0]});
        case Op::LOG2:
          return Log2F64({ctx, s[0]});
        case Op::LOG:
          return LogF64({ctx, s[0]});
        case Op::SIN:
          return SinF64({ctx, s[0]});
        case Op::COS:
          return CosF64({ctx, s[0]});
        case Op::POW:
          return PowF64({ctx, s[0]}, {ctx, s[1]});
        default:
          break;
      }
    }
    return ctx.WithSources(u, s);
  });
}

}  // namespace uopd::codegen
