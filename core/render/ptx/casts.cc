// SPDX-License-Identifier: MIT
// CAST and BITCAST of PtxValues.
#include "core/render/ptx/values.h"
#include "core/render/spelling.h"

namespace uopd::render {

using ir::Dtype;
using ir::UOp;

absl::Status PtxValues::Cast(UOp u) {
  const UOp x = u.src(0);
  if (SpellingOf(x.dtype()) == nullptr && x.dtype() != Dtype::Index) return NoPtx(u);
  if (SpellingOf(u.dtype()) == nullptr || x.dtype() == Dtype::BF16) return NoPtx(u);
  text_.Define(
      u, [&](int64_t lane) { return Converted(x.dtype(), u.dtype(), text_.Register(x, lane)); });
  return absl::OkStatus();
}

absl::Status PtxValues::Bitcast(UOp u) {
  const Dtype from = u.src(0).dtype(), to = u.dtype();
  if (SpellingOf(from) == nullptr || SpellingOf(to) == nullptr) return NoPtx(u);
  if ((from == Dtype::Bool) != (to == Dtype::Bool)) return NoPtx(u);
  text_.Define(u, [&](int64_t lane) {
    // The register holds the bits already; only the extension of a small value may differ.
    return Wrapped(to == Dtype::F16 || to == Dtype::BF16 ? Dtype::U16 : to,
                   text_.Register(u.src(0), lane));
  });
  return absl::OkStatus();
}

std::string PtxValues::Converted(Dtype from, Dtype to, const std::string& x) {
  if (to == Dtype::TF32)
    return text_.New(kPtxWord, "cvt.rna.tf32.f32", Converted(from, Dtype::F32, x));
  if (to == Dtype::BF16)
    return text_.New(kPtxWord, "cvt.u32.u16",
                     text_.New(kPtxHalf, "cvt.rn.bf16.f32", Converted(from, Dtype::F32, x)));
  if (from == Dtype::TF32) return Converted(Dtype::F32, to, x);
  if (from == to || (from == Dtype::Index && to == Dtype::I64)) return x;
  if (from == Dtype::Bool) return FromBool(to, x);
  if (to == Dtype::Bool) {
    if (from == Dtype::F16) return Converted(Dtype::F32, to, HalfToFloat(x));
    // NaN is not 0: the comparison of floats is the unordered one.
    return ir::IsFloat(from)
               ? text_.New(kPtxPredicate, Cat("setp.neu.", PtxAluType(from)), x, ", ",
                           PtxFloat(from, 0))
               : text_.New(kPtxPredicate, Cat("setp.ne.", PtxAluType(from)), x, ", 0");
  }
  if (to == Dtype::F16) return ToHalf(from, x);
  if (from == Dtype::F16) return Converted(Dtype::F32, to, HalfToFloat(x));
  if (!ir::IsFloat(from) && !ir::IsFloat(to)) return IntToInt(from, to, x);
  if (!ir::IsFloat(to)) return FloatToInt(from, to, x);
  // f32 to f64 is exact, and takes no rounding.
  const bool exact = from == Dtype::F32 && to == Dtype::F64;
  return text_.New(PtxRegisterOf(to),
                   Cat("cvt.", exact ? "" : "rn.", PtxAluType(to), ".", PtxAluType(from)), x);
}

std::string PtxValues::FromBool(Dtype to, const std::string& x) {
  if (to == Dtype::F16) return text_.New(kPtxWord, "selp.b32", "0x3C00, 0, ", x);
  if (ir::IsFloat(to))
    return text_.New(PtxRegisterOf(to), Cat("selp.", PtxMoveType(to)), PtxFloat(to, 1), ", ",
                     PtxFloat(to, 0), ", ", x);
  return text_.New(PtxRegisterOf(to), Cat("selp.", PtxMoveType(to)), "1, 0, ", x);
}

std::string PtxValues::IntToInt(Dtype from, Dtype to, const std::string& x) {
  if (IsLongInPtx(from) && IsLongInPtx(to)) return x;
  if (IsLongInPtx(from)) return Wrapped(to, text_.New(kPtxWord, "cvt.u32.u64", x));
  if (IsLongInPtx(to))
    return text_.New(kPtxLong, ir::IsSigned(from) ? "cvt.s64.s32" : "cvt.u64.u32", x);
  return Wrapped(to, x);
}

// Truncates and saturates; NaN is 0. The conversion saturates at the limits of 32 or 64 bits, and
// what it makes of NaN depends on the types.
std::string PtxValues::FloatToInt(Dtype from, Dtype to, const std::string& x) {
  const PtxRegister kind = PtxRegisterOf(to);
  const std::string_view type = PtxAluType(to), source = PtxAluType(from);
  std::string out = text_.New(kind, Cat("cvt.rzi.", type, ".", source), x);
  if (ir::Bits(to) < 32) {
    const ir::IntRange range = ir::RangeOf(to);
    out = text_.New(kind, Cat("min.", type), out, ", ", static_cast<int64_t>(range.max));
    if (ir::IsSigned(to))
      out = text_.New(kind, Cat("max.", type), out, ", ", static_cast<int64_t>(range.min));
  }
  const std::string is_nan = text_.New(kPtxPredicate, Cat("setp.nan.", source), x, ", ", x);
  return text_.New(kind, Cat("selp.", PtxMoveType(to)), "0, ", out, ", ", is_nan);
}

std::string PtxValues::HalfToFloat(const std::string& x) {
  const std::string half = text_.New(kPtxHalf, "cvt.u16.u32", x);
  return text_.New(kPtxWord, "cvt.f32.f16", half);
}

// Integers become f32 first: those that f32 rounds are infinities of f16.
std::string PtxValues::ToHalf(Dtype from, const std::string& x) {
  const Dtype through = from == Dtype::F64 ? Dtype::F64 : Dtype::F32;
  const std::string half =
      text_.New(kPtxHalf, Cat("cvt.rn.f16.", PtxAluType(through)), Converted(from, through, x));
  return text_.New(kPtxWord, "cvt.u32.u16", half);
}

std::string PtxValues::Wrapped(Dtype d, const std::string& x) {
  switch (d) {
    case Dtype::I8:
      return text_.New(kPtxWord, "cvt.s32.s8", x);
    case Dtype::U8:
      return text_.New(kPtxWord, "and.b32", x, ", 255");
    case Dtype::I16:
      return text_.New(kPtxWord, "cvt.s32.s16", x);
    case Dtype::U16:
      return text_.New(kPtxWord, "and.b32", x, ", 65535");
    default:
      return x;
  }
}

}  // namespace uopd::render
