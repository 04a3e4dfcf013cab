// SPDX-License-Identifier: MIT
// Element types: widths, ranges, promotion, and exact rounding of constants.
//
// A dtype has no vector width and is no pointer: the number of lanes and the address space belong
// to the op. Arithmetic on integers wraps at their width. `index` is a mathematical integer: the
// verifier proves that its values fit into 64 bits.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/target/dtype_number.h"

namespace uopd::ir {

enum class Dtype : uint8_t {
#define UOPD_DTYPE(name, ...) name,
#include "core/base/target/dtype.def"
#undef UOPD_DTYPE
};
#define UOPD_DTYPE(...) +1
inline constexpr int kDtypeCount = 0
#include "core/base/target/dtype.def"
    ;
#undef UOPD_DTYPE

enum DtypeKind : uint8_t { kNoKind, kIndexKind, kBoolKind, kSigned, kUnsigned, kFloat };

struct DtypeInfo {
  std::string_view name;
  uint8_t wire;
  uint8_t bits;
  DtypeKind kind;
};
inline constexpr DtypeInfo kDtypes[] = {
#define UOPD_DTYPE(name, text, wire, bits, kind, doc) {text, wire, bits, kind},
#include "core/base/target/dtype.def"
#undef UOPD_DTYPE
};
constexpr const DtypeInfo& Info(Dtype dtype) { return kDtypes[static_cast<int>(dtype)]; }

// The number by which layers without UOps know the dtype (core/base/target/dtype_number.h).
constexpr DtypeNumber NumberOf(Dtype d) { return static_cast<DtypeNumber>(Info(d).wire); }

inline std::string_view Name(Dtype d) { return Info(d).name; }
inline int Bits(Dtype d) { return Info(d).bits; }
inline int64_t ByteSize(Dtype d) { return Info(d).bits / 8; }  // bytes of one stored element
inline bool IsFloat(Dtype d) { return Info(d).kind == kFloat; }
// A float with less precision than f32. Codegen computes it in f32.
inline bool IsSmallFloat(Dtype d) { return IsFloat(d) && (Info(d).bits < 32 || d == Dtype::TF32); }
inline bool IsSigned(Dtype d) { return Info(d).kind == kSigned; }
inline bool IsUnsigned(Dtype d) { return Info(d).kind == kUnsigned; }
// Stored integers and index, without bool.
inline bool IsInt(Dtype d) { return IsSigned(d) || IsUnsigned(d) || d == Dtype::Index; }
std::optional<Dtype> DtypeByName(std::string_view name);
std::optional<Dtype> DtypeByWire(uint64_t wire);

// Range of an integer dtype; wide enough for u64. {0, 1} for bool; int64's range for index.
using Int128 = __int128;
struct IntRange {
  Int128 min, max;
};
IntRange RangeOf(Dtype dtype);
// v without its fraction, for an integer dtype; not wrapped. A value outside of 64 bits becomes the
// nearest value of the dtype; NaN becomes 0. Bool: v != 0.
Int128 WholeNumber(Dtype dtype, double v);

// The common dtype of two operands: their least upper bound in the lattice of docs/ir.md. Of two
// integers it is an integer, of an integer and a float the float; i64 and u64 give f32, f16 and
// bf16 give f32.
Dtype Promote(Dtype a, Dtype b);

// v rounded to nearest in `dtype`, half to even (tf32: away from zero), as a double. Overflow is as
// the dtype's line in dtype.def says. NaN becomes the one canonical quiet NaN. REQUIRES:
// IsFloat(dtype).
double RoundTo(Dtype dtype, double v);
// The wrapped value of v in an integer dtype (sign-extended for signed ones); bool: v != 0.
int64_t WrapTo(Dtype dtype, Int128 v);
// Bits of v as stored in memory for a dtype of up to 64 bits, and back. REQUIRES: IsFloat(dtype).
uint64_t EncodeFloat(Dtype dtype, double v);
double DecodeFloat(Dtype dtype, uint64_t bits);

}  // namespace uopd::ir
