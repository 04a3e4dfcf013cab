// SPDX-License-Identifier: MIT
// Conversions of element types. Formats of 8 bits and fewer: Open Compute Project, "OCP
// Microscaling Formats (MX) Specification" and "OCP 8-bit Floating Point Specification (OFP8)",
// 2023; those with FNUZ: B. Noune et al., "8-bit numerical formats for deep neural networks", 2022.
#include "client/cpp/onnx/ops/cast.h"

#include <limits>

#include "client/cpp/onnx/run/registry.h"
#include "core/base/text.h"
#include "uopd/math.h"
#include "uopd/movement.h"

namespace uopd::client::onnx {
namespace {

// A narrow float: bits of the mantissa, the exponent of the smallest normal number, the largest
// number, and what larger ones become unless they saturate.
struct NarrowFloat {
  std::string_view name;
  int mantissa, least_exponent;
  double most;
  bool has_infinity, has_nan;
};
constexpr NarrowFloat kNarrowFloats[] = {
    {"FLOAT8E4M3FN", 3, -6, 448, false, true},   {"FLOAT8E5M2", 2, -14, 57344, true, true},
    {"FLOAT8E4M3FNUZ", 3, -7, 240, false, true}, {"FLOAT8E5M2FNUZ", 2, -15, 57344, false, true},
    {"FLOAT4E2M1", 1, 0, 6, false, false},
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// x (f32) rounded to the numbers of a narrow float.
Tensor RoundToNarrow(const Tensor& x, const NarrowFloat& f, bool saturate) {
  constexpr int kMantissa = 23, kBias = 127;
  const Tensor stored = ((x.Bitcast(Dtype::U32) >> kMantissa) & 255).Cast(Dtype::I32);
  const Tensor exponent = (stored - kBias).Maximum(f.least_exponent);
  // The distance of neighbours, a power of two. Infinities and NaN have the largest exponent, for
  // which it would not be one; they are set below.
  const Tensor step =
      ((exponent - f.mantissa + kBias) << kMantissa).Cast(Dtype::U32).Bitcast(Dtype::F32);
  const Tensor rounded = fn::Round(x / step) * step;
  const double beyond = f.has_infinity ? kInfinity : kNan;
  const Tensor limit = saturate || !f.has_nan ? fn::FullLike(x, f.most) : fn::FullLike(x, beyond);
  const Tensor infinite = fn::IsInf(x) | (rounded.Abs() > f.most);
  Tensor out = Where(infinite, Where(x < 0.0, limit.Neg(), limit), rounded);
  // -0 does not exist in the formats with FNUZ.
  if (f.name.ends_with("FNUZ")) out = Where(out == 0.0, 0.0, out);
  // What has no NaN has -0 in its place, as the package ml_dtypes does it.
  return f.has_nan ? Where(x.IsNan(), x, out) : Where(x.IsNan(), -0.0, out);
}

// x (f32) rounded away from zero to a power of two, the format FLOAT8E8M0: it has no sign, no zero
// and no infinity.
Tensor RoundToPower(const Tensor& x, bool saturate) {
  constexpr int kMantissa = 23, kMost = 254;
  const Tensor bits = x.Bitcast(Dtype::U32);
  const Tensor stored = ((bits >> kMantissa) & 255).Cast(Dtype::I32);
  const Tensor up = (bits & ((1 << kMantissa) - 1)) != 0;
  Tensor exponent = stored + up.Cast(Dtype::I32);
  if (saturate) exponent = exponent.Minimum(kMost);
  // 2^-127 is not a normal number of f32, so it has bits of its own.
  const Tensor power = Where(exponent == 0, 1 << (kMantissa - 1), exponent << kMantissa);
  const Tensor out = power.Cast(Dtype::U32).Bitcast(Dtype::F32);
  return Where((stored > kMost) | (exponent > kMost), kNan, out);
}

const NarrowFloat* FindNarrow(std::string_view name) {
  for (const NarrowFloat& f : kNarrowFloats)
    if (f.name == name) return &f;
  return nullptr;
}

}  // namespace

bool IsIntegerType(const OnnxElementType& type) {
  const auto dtype = OnnxStorageDtype(type);
  return dtype && ir::IsInt(*dtype);
}

ElementRange RangeOfElements(const OnnxElementType& type) {
  const bool is_signed = type.name.starts_with("INT");
  if (type.bits == 64) {
    return is_signed ? ElementRange{std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max()}
                     : ElementRange{0, std::numeric_limits<int64_t>::max()};
  }
  const int64_t half = int64_t{1} << (type.bits - 1);
  return is_signed ? ElementRange{-half, half - 1} : ElementRange{0, 2 * half - 1};
}

Tensor ConvertElements(const Tensor& x, const OnnxElementType& from, const OnnxElementType& to,
                       bool saturate) {
  const Dtype dtype = *OnnxStorageDtype(to);
  if (&from == &to) return x;
  if (const NarrowFloat* narrow = FindNarrow(to.name)) {
    return RoundToNarrow(x.Cast(Dtype::F32), *narrow, saturate).Cast(dtype);
  }
  if (to.name == "FLOAT8E8M0") return RoundToPower(x.Cast(Dtype::F32), saturate);
  if (to.bits < 8) {
    // The low bits of the whole number, with the sign that their first one says.
    const Tensor whole = x.Cast(Dtype::I32);
    const int64_t count = int64_t{1} << to.bits, least = RangeOfElements(to).least;
    return (((whole - least) & (count - 1)) + least).Cast(dtype);
  }
  // Of floats, NumPy and ONNX go to unsigned integers by way of signed ones, so that they wrap.
  if (ir::IsFloat(x.dtype()) && ir::IsUnsigned(dtype) && to.bits < 64)
    return x.Cast(Dtype::I64).Cast(dtype);
  return x.Cast(dtype);
}

namespace {

absl::Status RunCastTo(Call& c, const OnnxElementType* to) {
  const bool saturate = c.Int("saturate", 1) != 0;
  if (c.String("round_mode", "up") != "up") return c.Refuse("only the round_mode up is supported");
  const OnnxElementType& from = *c.In(0).type;
  if (&from == to) return c.Out(c.In(0));
  const Tensor y = ConvertElements(c.X(0), from, *to, saturate);
  UOPD_TRY(y.status());
  return c.Out(ValueOf(y, to));
}

absl::Status RunCast(Call& c) {
  UOPD_ASSIGN(const OnnxElementType* to, c.TypeOf("to", nullptr));
  if (to == nullptr) return c.Wrong("the attribute `to` is missing");
  return RunCastTo(c, to);
}

absl::Status RunBitCast(Call& c) {
  UOPD_ASSIGN(const OnnxElementType* to, c.TypeOf("to", nullptr));
  if (to == nullptr) return c.Wrong("the attribute `to` is missing");
  if (!to->dtype) return c.Refuse(Cat("there is no dtype for the element type ", to->name));
  if (to->bits != c.In(0).type->bits) return c.Wrong("the element types have different sizes");
  if (c.In(0).type == to) return c.Out(c.In(0));
  if (to->dtype == Dtype::Bool) return c.Refuse("other bits as bools are not supported");
  const Tensor x = c.DtypeOf(0) == Dtype::Bool ? c.X(0).Cast(Dtype::U8) : c.X(0);
  return c.Out(x.dtype() == *to->dtype ? x : x.Bitcast(*to->dtype));
}

}  // namespace

OpRows CastOps() {
  return {
      {"Cast", 6, 1, 1, RunCast, kAnyType},
      {"CastLike", 15, 2, 2, [](Call& c) { return RunCastTo(c, c.In(1).type); }, kAnyType},
      {"BitCast", 26, 1, 1, RunBitCast},
  };
}

}  // namespace uopd::client::onnx
