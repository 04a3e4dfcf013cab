// SPDX-License-Identifier: MIT
#include "core/render/ptx/types.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace uopd::render {

using ir::Dtype;

PtxRegister PtxRegisterOf(Dtype d) {
  if (d == Dtype::Bool) return kPtxPredicate;
  return ir::Bits(d) == 64 || d == Dtype::Index ? kPtxLong : kPtxWord;
}

std::string_view PtxMoveType(Dtype d) {
  if (d == Dtype::F32 || d == Dtype::TF32) return "f32";
  if (d == Dtype::F64) return "f64";
  if (d == Dtype::Bool) return "pred";
  return IsLongInPtx(d) ? "b64" : "b32";
}

std::string_view PtxAluType(Dtype d) {
  if (ir::IsFloat(d)) return PtxMoveType(d);
  if (ir::IsUnsigned(d)) return IsLongInPtx(d) ? "u64" : "u32";
  return IsLongInPtx(d) ? "s64" : "s32";
}

std::string_view PtxMemoryType(Dtype d) {
  switch (ir::ByteSize(d)) {
    case 1:
      return d == Dtype::I8 ? "s8" : "u8";
    case 2:
      return d == Dtype::I16 ? "s16" : "u16";
    default:
      return PtxMoveType(d);
  }
}

std::string_view PtxMatrixType(DtypeNumber d) {
  switch (d) {
    case DtypeNumber::BF16:
      return "bf16";
    case DtypeNumber::F16:
      return "f16";
    case DtypeNumber::I8:
      return "s8";
    case DtypeNumber::U8:
      return "u8";
    case DtypeNumber::F8E4M3:
      return "e4m3";
    case DtypeNumber::F8E5M2:
      return "e5m2";
    case DtypeNumber::TF32:
      return "tf32";
    case DtypeNumber::I32:
      return "s32";
    default:
      return "f32";
  }
}

std::string PtxFloat(Dtype d, double value) {
  const uint64_t bits = ir::EncodeFloat(d, value);
  return d == Dtype::F64 ? absl::StrFormat("0d%016X", bits) : absl::StrFormat("0f%08X", bits);
}

std::string PtxConstant(ir::UOp constant) {
  const Dtype d = constant.dtype();
  if (d == Dtype::F16) return Cat(ir::EncodeFloat(d, constant.const_float()));
  if (ir::IsFloat(d)) return PtxFloat(d, constant.const_float());
  const int64_t v = constant.const_int();
  // The signed number of the same bits, but for the one that no literal has.
  if (v == INT64_MIN) return "0x8000000000000000";
  return IsLongInPtx(d) ? Cat(v) : Cat(static_cast<int32_t>(v));
}

std::string PtxVersion(std::string_view arch, bool fp8) {
  int number = 0;
  const std::string_view digits = arch.substr(std::min(arch.find('_') + 1, arch.size()));
  const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  const bool plain = end == digits.data() + digits.size();
  struct Since {
    int number;
    int version;
  };
  // The first version of each architecture and of those after it, from the release notes of PTX.
  constexpr Since kSince[] = {{121, 88}, {120, 87}, {110, 90}, {103, 88}, {100, 86},
                              {89, 78},  {87, 74},  {86, 71},  {80, 70},  {0, 63}};
  int version = 63;
  for (const Since& s : kSince) {
    if (number < s.number) continue;
    version = s.version;
    break;
  }
  if (number == 90 && !plain) version = 80;  // sm_90a
  if (fp8) version = std::max(version, 84);
  return Cat(version / 10, ".", version % 10);
}

}  // namespace uopd::render
