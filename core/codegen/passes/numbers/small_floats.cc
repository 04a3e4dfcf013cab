// SPDX-License-Identifier: MIT
#include "absl/container/flat_hash_map.h"
#include "core/codegen/passes/numbers/decompose.h"
#include "core/codegen/passes/numbers/expr.h"
#include "core/codegen/passes/rebuild.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

bool IsByte(Dtype d) { return ir::IsFloat(d) && ir::Bits(d) == 8; }
bool IsSmall(Dtype d) { return ir::IsSmallFloat(d); }

// The bits of the mantissa of an f32 that tf32 drops.
constexpr int kTf32Dropped = 13;
constexpr uint64_t kTf32Bits = 0xffffffffu & ~((1u << kTf32Dropped) - 1);

// The dtype that represents d in memory.
Dtype Stored(Dtype d) {
  if (d == Dtype::TF32) return Dtype::U32;
  return d == Dtype::BF16 ? Dtype::U16 : ir::Bits(d) == 8 && ir::IsFloat(d) ? Dtype::U8 : d;
}

// The parameters of an fp8 format.
struct Fp8 {
  int mantissa, bias;  // bits of the mantissa; bias of the exponent
  double largest, smallest_normal;
};
Fp8 Fp8Of(Dtype d) {
  return d == Dtype::F8E4M3 ? Fp8{3, 7, 448, 0x1p-6} : Fp8{2, 15, 57344, 0x1p-14};
}

class Widener {
 public:
  Widener(ir::UOpContext& ctx, DtypeNumberSet converted) : ctx_(ctx), converted_(converted) {}

  UOp Visit(UOp u, std::span<const UOp> s) {
    const Dtype d = u.dtype();
    const Dtype from = u.n_src() > 0 ? u.src(0).dtype() : Dtype::Void;
    if (u.Is(Op::CAST)) {
      if (IsSmall(d)) return from == d ? s[0] : Round(d, E(s[0]), from);
      return ir::Cast(ctx_, s[0], d);
    }
    if (u.Is(Op::BITCAST)) {
      UOp x = s[0];
      if (const auto raw = loaded_.find(u.src(0).id()); raw != loaded_.end()) {
        x = raw->second;
      } else if (const UOp bits = LoadedBits(from, x)) {
        x = bits;
      } else if (IsSmall(from)) {
        x = Encode(from, E(x));
      }
      if (!IsSmall(d)) return ir::Bitcast(ctx_, x, d);
      stored_[u.id()] = ir::Bitcast(ctx_, x, Stored(d));
      return Decode(d, E(stored_[u.id()]));
    }
    if (const auto bits = u.Is(Op::STORE) ? stored_.find(u.src(1).id()) : stored_.end();
        bits != stored_.end())
      return ctx_.Make(Op::STORE, Dtype::Void, {s[0], bits->second}, u.arg(), u.tag());
    if (u.Is(Op::STORE) && IsSmall(u.src(1).dtype()))
      return ctx_.Make(Op::STORE, Dtype::Void, {s[0], Encode(u.src(1).dtype(), E(s[1]))}, u.arg(),
                       u.tag());
    if (!IsSmall(d)) return ctx_.WithSources(u, s);
    switch (u.op()) {
      case Op::CONST:
        return ctx_.Float(Dtype::F32, u.const_float());
      case Op::PARAM:
      case Op::BUFFER:
      case Op::INDEX:
      case Op::AFTER:
        return ctx_.Make(u.op(), u.n_src() > 0 && s[0].Is(Op::STAGE) ? Dtype::F32 : Stored(d), s,
                         u.arg(), u.tag());
      case Op::STAGE:
        return ctx_.Make(u.op(), Dtype::F32, s, u.arg(), u.tag());
      case Op::LOAD:
        if (u.src(0).src(0).Is(Op::STAGE)) return ir::Load(ctx_, s[0]);
        loaded_[u.id()] = ctx_.Make(Op::LOAD, Stored(d), s, u.arg(), u.tag());
        return Decode(d, E(loaded_[u.id()]));
      case Op::WHERE:
      case Op::NEG:
      case Op::MAX:
      case Op::TRUNC:
      case Op::STACK:
      case Op::GEP:
        return ctx_.Make(u.op(), Dtype::F32, s, u.arg(), u.tag());
      default:
        break;  // arithmetic and REDUCE round
    }
    return Round(d, E(ctx_.Make(u.op(), Dtype::F32, s, u.arg(), u.tag())), Dtype::F32);
  }

 private:
  Ex E(UOp u) { return {ctx_, u}; }

  // What Decode was given for an f32 that is a bf16; null for other values.
  static UOp RawBits(UOp x) {
    if (!x.Is(Op::BITCAST) || !x.src(0).Is(Op::SHL)) return UOp();
    const UOp wide = x.src(0).src(0);
    return wide.Is(Op::CAST) && wide.src(0).dtype() == Dtype::U16 ? wide.src(0) : UOp();
  }
  // The representation in memory of an f32 that is a decoded bf16; null for other values.
  static UOp LoadedBits(Dtype d, UOp x) {
    const UOp raw = d == Dtype::BF16 ? RawBits(x) : UOp();
    return raw && raw.Is(Op::LOAD) ? raw : UOp();
  }

  // x converted to f32 and rounded to a value of d. `from`: the dtype of x before widening.
  Ex Round(Dtype d, Ex x, Dtype from) {
    if (IsByte(from) && d == Dtype::F16) return x;    // every fp8 value is an f16 value
    if (IsSmall(from) && d == Dtype::TF32) return x;  // and every small float a tf32 value
    // An integer that f32 does not hold exactly overflows in f16 and fp8 anyway. In bf16 and tf32
    // it does not, so avoid rounding twice.
    if (ir::IsInt(from) && (d == Dtype::BF16 || d == Dtype::TF32) && ir::Bits(from) > 16)
      x = ToDouble(x, from);
    const Ex exact = x;  // may be too large for f32
    if (x.dtype() == Dtype::F64) x = RoundToOdd(x);
    x = x.Cast(Dtype::F32);
    if (d == Dtype::F16) return x.Cast(Dtype::F16).Cast(Dtype::F32);
    if (d == Dtype::BF16) return RoundToBf16(x);
    if (d == Dtype::TF32) return RoundToTf32(x);
    const Fp8 f = Fp8Of(d);
    const Ex bits = x.Bitcast(Dtype::U32), sign = bits & bits.Bits(0x80000000u);
    const Ex a = (bits & bits.Bits(0x7fffffffu)).Bitcast(Dtype::F32);
    // Adding 2^23 times the smallest denormal of d rounds to a multiple of that denormal.
    const double magic = f.smallest_normal * 0x1p23 / (1 << f.mantissa);
    Ex r = (a < f.smallest_normal).Select((a + magic) - magic, RoundBits(a, 23 - f.mantissa));
    const Ex too_large = f.largest < r;
    Ex saturates = too_large;
    if (d == Dtype::F8E5M2) {
      const Ex most = exact.dtype() == Dtype::F64 ? exact : x;
      for (const double infinity : {INFINITY, -INFINITY})
        saturates = saturates & most.Ne(most.Of(ctx_.Float(most.dtype(), infinity)));
    }
    r = saturates.Select(r.Const(f.largest), r);
    return (r.Bitcast(Dtype::U32) | sign).Bitcast(Dtype::F32);
  }

  // Drops the low `drop` bits with rounding to nearest even. Infinities stay; a NaN becomes the
  // canonical NaN.
  Ex RoundBits(Ex x, int drop) {
    const Ex bits = x.Bitcast(Dtype::U32);
    const uint64_t low = (uint64_t{1} << drop) - 1;
    const Ex half = bits.Bits(low >> 1) + ((bits >> drop) & bits.Bits(1));
    const Ex r = ((bits + half) & bits.Bits(0xffffffffu & ~low)).Bitcast(Dtype::F32);
    return x.Ne(x).Select(x.Of(ctx_.Float(Dtype::F32, NAN)), r);
  }

  Ex RoundToBf16(Ex x) {
    if (!converted_.Has(DtypeNumber::BF16)) return RoundBits(x, 16);
    return Decode(Dtype::BF16, x.Cast(Dtype::BF16).Bitcast(Dtype::U16));
  }

  // Half away from zero. Infinities stay; a NaN becomes a NaN.
  Ex RoundToTf32(Ex x) {
    if (converted_.Has(DtypeNumber::TF32)) return x.Cast(Dtype::TF32).Bitcast(Dtype::F32);
    const Ex bits = x.Bitcast(Dtype::U32), half = bits.Bits(1u << (kTf32Dropped - 1));
    const Ex r = ((bits + half) & bits.Bits(kTf32Bits)).Bitcast(Dtype::F32);
    return x.Ne(x).Select(x.Of(ctx_.Float(Dtype::F32, NAN)), r);
  }

  // Rounds an f64 to the precision of f32 by rounding to odd: truncate, then set the last kept bit
  // if any dropped bit was set. A second rounding, to fewer bits, then gives the same result as
  // rounding once (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
  Ex RoundToOdd(Ex x) {
    const Ex bits = x.Bitcast(Dtype::U64);
    const Ex low = bits & bits.Bits((uint64_t{1} << 29) - 1);
    const Ex sticky = low.Eq(low.Bits(0)).Select(bits.Bits(0), bits.Bits(uint64_t{1} << 29));
    const Ex odd = ((bits & bits.Bits(~((uint64_t{1} << 29) - 1))) | sticky).Bitcast(Dtype::F64);
    return x.Ne(x).Select(x, odd);
  }

  // An integer as f64. More than 53 bits are rounded to odd (see RoundToOdd).
  Ex ToDouble(Ex x, Dtype from) {
    if (ir::Bits(from) < 64) return x.Cast(Dtype::F64);
    const Ex low = x & x.Bits(0x7ff), sticky = low.Eq(low.Bits(0)).Select(x.Bits(0), x.Bits(0x800));
    const Ex odd = (x & x.Bits(~uint64_t{0x7ff})) | sticky;
    Ex small = x < x.Bits(uint64_t{1} << 53);
    if (!ir::IsUnsigned(from)) small = small & (x.Of(ctx_.Int(from, -(ir::Int128{1} << 53))) < x);
    return small.Select(x, odd).Cast(Dtype::F64);
  }

  // The representation in memory of an f32 that holds a value of d.
  Ex Encode(Dtype d, Ex x) {
    if (d == Dtype::F16) return x.Cast(Dtype::F16);
    const Ex bits = x.Bitcast(Dtype::U32);
    if (d == Dtype::TF32) return bits;
    if (d == Dtype::BF16) {
      const UOp raw = RawBits(x);
      return raw ? E(raw) : (bits >> 16).Cast(Dtype::U16);
    }
    const Fp8 f = Fp8Of(d);
    const int shift = 23 - f.mantissa;
    const Ex magnitude = bits & bits.Bits(0x7fffffffu), a = magnitude.Bitcast(Dtype::F32);
    const Ex normal =
        (magnitude >> shift) - bits.Bits(static_cast<uint64_t>(127 - f.bias) << f.mantissa);
    const Ex denormal = (a * ((1 << f.mantissa) / f.smallest_normal)).Cast(Dtype::U32);
    Ex out = (a < f.smallest_normal).Select(denormal, normal);
    if (d == Dtype::F8E5M2) out = bits.Bits(0x7f800000u).Eq(magnitude).Select(bits.Bits(0x7c), out);
    out = x.Ne(x).Select(bits.Bits(d == Dtype::F8E4M3 ? 0x7f : 0x7e), out);
    return (out | ((bits >> 24) & bits.Bits(0x80))).Cast(Dtype::U8);
  }
  // The inverse of Encode.
  Ex Decode(Dtype d, Ex x) {
    if (d == Dtype::F16) return x.Cast(Dtype::F32);
    const Ex bits = x.Cast(Dtype::U32);
    if (d == Dtype::TF32) return (bits & bits.Bits(kTf32Bits)).Bitcast(Dtype::F32);
    if (d == Dtype::BF16) return (bits << 16).Bitcast(Dtype::F32);
    const Fp8 f = Fp8Of(d);
    const Ex magnitude = bits & bits.Bits(0x7f), sign = (bits & bits.Bits(0x80)) << 24;
    const Ex normal =
        (magnitude << (23 - f.mantissa)) + bits.Bits(static_cast<uint64_t>(127 - f.bias) << 23);
    const Ex denormal =
        (magnitude.Cast(Dtype::F32) * (f.smallest_normal / (1 << f.mantissa))).Bitcast(Dtype::U32);
    Ex out = (magnitude < (1 << f.mantissa)).Select(denormal, normal);
    const Ex nan = bits.Bits(0x7fc00000u);
    if (d == Dtype::F8E4M3) {
      out = magnitude.Eq(bits.Bits(0x7f)).Select(nan, out);
    } else {
      out = magnitude.Eq(bits.Bits(0x7c)).Select(bits.Bits(0x7f800000u), out);
      out = (0x7c < magnitude).Select(nan, out);
    }
    return (out | sign).Bitcast(Dtype::F32);
  }

  ir::UOpContext& ctx_;
  const DtypeNumberSet converted_;             // from f32 by an instruction
  absl::flat_hash_map<uint32_t, UOp> loaded_;  // LOAD of small floats -> the LOAD of their bits
  absl::flat_hash_map<uint32_t, UOp> stored_;  // BITCAST to small floats -> their bits in memory
};

}  // namespace

UOp WidenSmallFloats(ir::UOpContext& ctx, UOp sink, DtypeNumberSet converted) {
  Widener w(ctx, converted);
  return Rebuild(ctx, sink, [&](UOp u, std::span<const UOp> s) { return w.Visit(u, s); });
}

}  // namespace uopd::codegen
