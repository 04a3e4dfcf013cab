// SPDX-License-Identifier: MIT
#include "core/ir/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace uopd::ir {
namespace {

// A small float format. Exponents are those of the value 1.m * 2^e.
struct Format {
  int mantissa_bits, min_exponent, max_exponent;
  double max_finite;
  bool has_infinity, saturates;
};

constexpr Format FormatOf(Dtype d) {
  switch (d) {
    case Dtype::F8E4M3:
      return {3, -6, 8, 448.0, false, true};
    case Dtype::F8E5M2:
      return {2, -14, 15, 57344.0, true, true};
    case Dtype::F16:
      return {10, -14, 15, 65504.0, true, false};
    case Dtype::BF16:
      return {7, -126, 127, 0x1.fep127, true, false};
    case Dtype::TF32:
      return {10, -126, 127, 0x1.ffcp127, true, false};
    default:
      return {23, -126, 127, 0x1.fffffep127, true, false};
  }
}

// The bits of an f32 that tf32 keeps: sign, exponent and 10 bits of the mantissa.
constexpr uint32_t kTf32Bits = 0xffffe000;

constexpr size_t kMaxWire = 64;
constexpr std::array<int8_t, kMaxWire> kByWire = [] {
  std::array<int8_t, kMaxWire> table{};
  for (auto& t : table) t = -1;
  for (int i = 0; i < kDtypeCount; ++i) table[kDtypes[i].wire] = static_cast<int8_t>(i);
  return table;
}();

}  // namespace

std::optional<Dtype> DtypeByName(std::string_view name) {
  for (int i = 0; i < kDtypeCount; ++i) {
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

std::optional<Dtype> DtypeByWire(uint64_t wire) {
  if (wire >= kMaxWire || kByWire[wire] < 0) return std::nullopt;
  return static_cast<Dtype>(kByWire[wire]);
}

IntRange RangeOf(Dtype dtype) {
  const DtypeInfo& info = Info(dtype);
  if (info.kind == kBoolKind) return {0, 1};
  if (info.kind == kUnsigned) return {0, (Int128{1} << info.bits) - 1};
  const int bits = info.bits == 0 ? 64 : info.bits;
  return {-(Int128{1} << (bits - 1)), (Int128{1} << (bits - 1)) - 1};
}

Dtype Promote(Dtype a, Dtype b) {
  if (a == b) return a;
  if (a == Dtype::TF32 || b == Dtype::TF32) {
    const Dtype other = a == Dtype::TF32 ? b : a;
    if (!IsFloat(other) || Bits(other) < 16) return Dtype::TF32;
    return Bits(other) == 16 ? Dtype::F32 : other;
  }
  if (a > b) std::swap(a, b);
  if (a == Dtype::Void) return b;
  if (a == Dtype::Index && IsInt(b))
    return b;  // an index constant takes the dtype of the integer beside it
  if (a == Dtype::Bool) return b;
  if (a == Dtype::Index && b == Dtype::Bool) return Dtype::Index;
  if (IsFloat(b)) {
    if (!IsFloat(a)) return b;
    if (Bits(a) == Bits(b))
      return Bits(a) == 8 ? Dtype::F16 : Dtype::F32;  // fp8 kinds; f16 and bf16
    return b;
  }
  if (IsSigned(a) == IsSigned(b)) return b;
  // Signed meets unsigned: the narrowest signed integer that holds both.
  const int bits =
      std::max(IsUnsigned(a) ? Bits(a) * 2 : Bits(a), IsUnsigned(b) ? Bits(b) * 2 : Bits(b));
  switch (bits) {
    case 16:
      return Dtype::I16;
    case 32:
      return Dtype::I32;
    case 64:
      return Dtype::I64;
    default:
      return Dtype::F32;
  }
}

double RoundTo(Dtype dtype, double v) {
  if (std::isnan(v)) return std::numeric_limits<double>::quiet_NaN();
  if (dtype == Dtype::F64) return v;
  if (dtype == Dtype::F32) return static_cast<float>(v);
  const Format f = FormatOf(dtype);
  if (std::isinf(v)) {
    if (f.has_infinity) return v;
    return std::copysign(f.max_finite, v);
  }
  if (v == 0) return v;
  int exponent = std::ilogb(v);
  if (exponent < f.min_exponent)
    exponent = f.min_exponent;  // denormals share the smallest exponent
  const double ulp = std::ldexp(1.0, exponent - f.mantissa_bits);
  // The quotient is exact. Half is rounded to even, but for tf32 away from zero, as hardware does.
  const double quotient = v / ulp;
  double rounded = (dtype == Dtype::TF32 ? std::round(quotient) : std::nearbyint(quotient)) * ulp;
  if (std::abs(rounded) > f.max_finite) {
    rounded =
        std::copysign(f.saturates ? f.max_finite : std::numeric_limits<double>::infinity(), v);
  }
  return rounded == 0 ? std::copysign(0.0, v) : rounded;
}

Int128 WholeNumber(Dtype dtype, double v) {
  if (dtype == Dtype::Bool) return v != 0;
  if (v > -0x1p64 && v < 0x1p64) return static_cast<Int128>(v);
  const IntRange range = RangeOf(dtype);
  return std::isnan(v) ? 0 : v < 0 ? range.min : range.max;
}

int64_t WrapTo(Dtype dtype, Int128 v) {
  if (dtype == Dtype::Bool) return v != 0;
  const int bits = Bits(dtype);
  const auto low = static_cast<uint64_t>(v);
  if (bits == 64) return static_cast<int64_t>(low);
  const uint64_t masked = low & ((uint64_t{1} << bits) - 1);
  if (IsUnsigned(dtype)) return static_cast<int64_t>(masked);
  const uint64_t sign = uint64_t{1} << (bits - 1);
  return static_cast<int64_t>((masked ^ sign) - sign);
}

uint64_t EncodeFloat(Dtype dtype, double v) {
  if (dtype == Dtype::F64) return std::bit_cast<uint64_t>(v);
  if (dtype == Dtype::F32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  if (dtype == Dtype::TF32) return std::bit_cast<uint32_t>(static_cast<float>(RoundTo(dtype, v)));
  const Format f = FormatOf(dtype);
  const int bits = Bits(dtype);
  const uint64_t sign = std::signbit(v) ? uint64_t{1} << (bits - 1) : 0;
  const int bias = 1 - f.min_exponent;
  const uint64_t exponent_mask = (uint64_t{1} << (bits - 1 - f.mantissa_bits)) - 1;
  if (std::isnan(v)) {
    if (dtype == Dtype::F8E4M3) return 0x7f;
    return exponent_mask << f.mantissa_bits | uint64_t{1} << (f.mantissa_bits - 1);
  }
  v = RoundTo(dtype, v);
  if (std::isinf(v)) return sign | exponent_mask << f.mantissa_bits;
  const double a = std::abs(v);
  if (a == 0) return sign;
  const int exponent = std::ilogb(a);
  if (exponent < f.min_exponent) {
    return sign | static_cast<uint64_t>(std::ldexp(a, f.mantissa_bits - f.min_exponent));
  }
  const auto mantissa = static_cast<uint64_t>(std::ldexp(a, f.mantissa_bits - exponent)) -
                        (uint64_t{1} << f.mantissa_bits);
  return sign | static_cast<uint64_t>(exponent + bias) << f.mantissa_bits | mantissa;
}

double DecodeFloat(Dtype dtype, uint64_t bits_in) {
  if (dtype == Dtype::F64) return std::bit_cast<double>(bits_in);
  if (dtype == Dtype::F32) return std::bit_cast<float>(static_cast<uint32_t>(bits_in));
  if (dtype == Dtype::TF32) return std::bit_cast<float>(static_cast<uint32_t>(bits_in) & kTf32Bits);
  const Format f = FormatOf(dtype);
  const int bits = Bits(dtype);
  const double sign = bits_in >> (bits - 1) & 1 ? -1.0 : 1.0;
  const uint64_t exponent_mask = (uint64_t{1} << (bits - 1 - f.mantissa_bits)) - 1;
  const uint64_t exponent = bits_in >> f.mantissa_bits & exponent_mask;
  const uint64_t mantissa = bits_in & ((uint64_t{1} << f.mantissa_bits) - 1);
  const int bias = 1 - f.min_exponent;
  if (dtype == Dtype::F8E4M3) {
    if (exponent == exponent_mask && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == exponent_mask) {
    if (mantissa != 0) return std::numeric_limits<double>::quiet_NaN();
    return sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0)
    return sign * std::ldexp(static_cast<double>(mantissa), f.min_exponent - f.mantissa_bits);
  return sign * std::ldexp(1.0 + std::ldexp(static_cast<double>(mantissa), -f.mantissa_bits),
                           static_cast<int>(exponent) - bias);
}

}  // namespace uopd::ir
