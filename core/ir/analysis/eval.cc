// SPDX-License-Identifier: MIT
#include "core/ir/analysis/eval.h"

#include <bit>
#include <cmath>
#include <limits>

namespace uopd::ir {
namespace {

double EvalUnary(Op op, double x) {
  switch (op) {
    case Op::EXP2:
      return std::exp2(x);
    case Op::LOG2:
      return std::log2(x);
    case Op::SIN:
      return std::sin(x);
    case Op::EXP:
      return std::exp(x);
    case Op::LOG:
      return std::log(x);
    case Op::COS:
      return std::cos(x);
    case Op::SQRT:
      return std::sqrt(x);
    case Op::RECIPROCAL:
      return 1.0 / x;
    case Op::NEG:
      return -x;
    default:
      return std::trunc(x);
  }
}

std::optional<double> EvalFloat(Op op, double x, double y) {
  switch (op) {
    case Op::ADD:
      return x + y;
    case Op::SUB:
      return x - y;
    case Op::MUL:
      return x * y;
    case Op::FDIV:
      return x / y;
    case Op::POW:
      return std::pow(x, y);
    case Op::MAX:
      if (std::isnan(x) || std::isnan(y)) return std::numeric_limits<double>::quiet_NaN();
      return x > y || (x == y && !std::signbit(x)) ? x : y;
    default:
      return std::nullopt;
  }
}

// Modulo 2^128, and so modulo every power of two below.
Int128 Power(Int128 x, Int128 y) {
  const bool odd = (y & 1) != 0;
  if (y < 0) return x == 1 || (x == -1 && !odd) ? 1 : x == -1 ? -1 : 0;
  unsigned __int128 out = 1;
  for (auto square = static_cast<unsigned __int128>(x); y > 0; y >>= 1, square *= square) {
    if ((y & 1) != 0) out *= square;
  }
  return static_cast<Int128>(out);
}

std::optional<Int128> EvalInt(Op op, Dtype dtype, Int128 x, Int128 y) {
  const bool is_bool = dtype == Dtype::Bool;
  const bool shift_in_range = y >= 0 && y < Bits(dtype);
  switch (op) {
    case Op::ADD:
      return is_bool ? (x | y) : x + y;
    case Op::SUB:
      return x - y;
    case Op::MUL:
      return static_cast<Int128>(static_cast<unsigned __int128>(x) *
                                 static_cast<unsigned __int128>(y));
    case Op::MAX:
      return x > y ? x : y;
    case Op::CDIV:
      return y == 0 ? 0 : x / y;
    case Op::CMOD:
      return y == 0 ? 0 : x % y;
    case Op::FLOORDIV:
      return y == 0 ? 0 : x / y - ((x % y != 0) && ((x < 0) != (y < 0)));
    case Op::FLOORMOD:
      return y == 0 ? 0 : x % y + ((x % y != 0) && ((x < 0) != (y < 0)) ? y : 0);
    case Op::XOR:
      return x ^ y;
    case Op::OR:
      return x | y;
    case Op::AND:
      return x & y;
    case Op::SHL:
      return shift_in_range
                 ? static_cast<Int128>(static_cast<unsigned __int128>(x) << static_cast<int>(y))
                 : 0;
    case Op::SHR:
      return shift_in_range ? x >> static_cast<int>(y) : (x < 0 ? -1 : 0);
    case Op::POW:
      return Power(x, y);
    case Op::THREEFRY:
      return Int128{Threefry(static_cast<uint64_t>(x), static_cast<uint64_t>(y))};
    default:
      return std::nullopt;
  }
}

template <class T>
bool EvalCompare(Op op, T x, T y) {
  return op == Op::CMPLT ? x < y : op == Op::CMPNE ? x != y : x == y;
}

// The nearest value of a float dtype. Formats narrower than double are reached by rounding to odd
// at 53 bits first, so the second rounding cannot go the wrong way.
double IntToFloat(Dtype out, Int128 v) {
  if (out == Dtype::F64) return static_cast<double>(v);
  const bool negative = v < 0;
  auto magnitude = static_cast<uint64_t>(negative ? -v : v);
  double d;
  if (magnitude >> 53 == 0) {
    d = static_cast<double>(magnitude);
  } else {
    d = static_cast<double>(magnitude >> 11 | ((magnitude & 0x7ff) != 0)) * 2048.0;
  }
  return RoundTo(out, negative ? -d : d);
}

Int128 FloatToInt(Dtype out, double v) {
  const IntRange range = RangeOf(out);
  if (std::isnan(v)) return 0;
  if (v <= static_cast<double>(range.min)) return range.min;
  if (v >= static_cast<double>(range.max)) return range.max;
  return static_cast<Int128>(v);
}

Scalar Cast(Dtype out, const Scalar& x) {
  const bool from_float = IsFloat(x.dtype);
  if (out == Dtype::Bool) return Scalar::Int(out, from_float ? x.f != 0 : x.i != 0);
  if (IsFloat(out)) return {out, 0, from_float ? RoundTo(out, x.f) : IntToFloat(out, x.wide())};
  return Scalar::Int(out, from_float ? FloatToInt(out, x.f) : x.wide());
}

Scalar Bitcast(Dtype out, const Scalar& x) {
  const uint64_t bits = IsFloat(x.dtype) ? EncodeFloat(x.dtype, x.f) : static_cast<uint64_t>(x.i);
  if (!IsFloat(out)) return Scalar::Int(out, static_cast<Int128>(bits));
  const int width = Bits(out);
  return {out, 0,
          RoundTo(out, DecodeFloat(out, width == 64 ? bits : bits & ((uint64_t{1} << width) - 1)))};
}

}  // namespace

Scalar Scalar::Of(UOp c) {
  return IsFloat(c.dtype()) ? Scalar{c.dtype(), 0, c.const_float()}
                            : Scalar{c.dtype(), c.const_int(), 0};
}

std::optional<Scalar> EvalAlu(Op op, Dtype out, std::span<const Scalar> v) {
  switch (op) {
    case Op::CAST:
      return Cast(out, v[0]);
    case Op::BITCAST:
      return Bitcast(out, v[0]);
    case Op::WHERE:
      return v[0].i != 0 ? v[1] : v[2];
    case Op::MULACC:
      if (IsFloat(out)) return Scalar::Float(out, std::fma(v[0].f, v[1].f, v[2].f));
      return Scalar::Int(
          out, *EvalInt(Op::ADD, out,
                        Scalar::Int(out, *EvalInt(Op::MUL, out, v[0].wide(), v[1].wide())).wide(),
                        v[2].wide()));
    default:
      break;
  }
  if (kUnaryOps.Has(op)) {
    if (IsFloat(out)) return Scalar::Float(out, EvalUnary(op, v[0].f));
    if (op == Op::NEG) return Scalar::Int(out, -v[0].wide());
    return std::nullopt;
  }
  if (kComparisonOps.Has(op)) {
    const bool r = IsFloat(v[0].dtype) ? EvalCompare(op, v[0].f, v[1].f)
                                       : EvalCompare(op, v[0].wide(), v[1].wide());
    return Scalar::Int(Dtype::Bool, r);
  }
  if (!kBinaryOps.Has(op)) return std::nullopt;
  if (IsFloat(out)) {
    auto r = EvalFloat(op, v[0].f, v[1].f);
    return r ? std::optional(Scalar::Float(out, *r)) : std::nullopt;
  }
  auto r = EvalInt(op, out, v[0].wide(), v[1].wide());
  return r ? std::optional(Scalar::Int(out, *r)) : std::nullopt;
}

Scalar EvalWmma(UOp wmma, std::span<const Scalar> operands) {
  const Dtype d = wmma.dtype(), a = *DtypeByWire(static_cast<uint64_t>(wmma.ints()[0])),
              b = *DtypeByWire(static_cast<uint64_t>(wmma.ints()[1]));
  const auto element = [](Dtype of, const Scalar& word, int at) {
    const auto bits = static_cast<uint32_t>(word.i) >> (at * Bits(of));
    return IsFloat(of) ? Scalar::Float(of, DecodeFloat(of, bits & ((1U << Bits(of)) - 1)))
                       : Scalar::Int(of, bits);
  };
  double sum = operands.size() == 3 ? operands[2].f : 0;
  Int128 whole = operands.size() == 3 ? operands[2].wide() : 0;
  for (int at = 0; at < 32 / Bits(a); ++at) {
    const Scalar x = element(a, operands[0], at), y = element(b, operands[1], at);
    sum += x.f * y.f;
    whole += x.wide() * y.wide();
  }
  return IsFloat(d) ? Scalar::Float(d, sum) : Scalar::Int(d, whole);
}

Scalar ReduceIdentity(Op op, Dtype dtype) {
  if (op == Op::MAX) {
    if (IsFloat(dtype)) return Scalar::Float(dtype, -std::numeric_limits<double>::infinity());
    return Scalar::Int(dtype, RangeOf(dtype).min);
  }
  const int v = op == Op::MUL ? 1 : 0;
  return IsFloat(dtype) ? Scalar::Float(dtype, v) : Scalar::Int(dtype, v);
}

uint64_t Threefry(uint64_t counter, uint64_t key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t ks[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  uint32_t x0 = static_cast<uint32_t>(counter) + ks[0],
           x1 = static_cast<uint32_t>(counter >> 32) + ks[1];
  for (uint32_t i = 0; i < 5; ++i) {
    for (int r : kRotations[i % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, r) ^ x0;
    }
    x0 += ks[(i + 1) % 3];
    x1 += ks[(i + 2) % 3] + i + 1;
  }
  return uint64_t{x1} << 32 | x0;
}

}  // namespace uopd::ir
