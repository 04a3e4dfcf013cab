// SPDX-License-Identifier: MIT
#include "core/render/ptx/divide.h"

#include <bit>

namespace uopd::render {

using ir::Op;
using ir::UOp;

namespace {

// x / d and x % d, in registers of 32 bits.
struct WordDivision {
  PtxText& text;
  const std::string& x;
  uint32_t d;

  std::string Quotient(const Reciprocal& r) const {
    std::string high = text.New(kPtxWord, "mul.hi.u32", x, ", ", r.factor);
    return r.shift == 0 ? high : text.New(kPtxWord, "shr.u32", high, ", ", r.shift);
  }
  std::string Remainder(const Reciprocal& r) const {
    // Of d too the low 32 bits count only.
    return text.New(kPtxWord, "mad.lo.s32", Quotient(r), ", ", -static_cast<int64_t>(d), ", ", x);
  }
};

}  // namespace

// With factor = (2^k + e) / divisor the product is x / divisor + x e / (divisor 2^k). The second
// part changes no quotient if it is below 1 / divisor.
std::optional<Reciprocal> ReciprocalOf(uint32_t divisor, uint32_t largest) {
  for (int shift = 0; shift < 32; ++shift) {
    const ir::Int128 power = ir::Int128{1} << (32 + shift);
    const ir::Int128 factor = (power + divisor - 1) / divisor;
    if (factor > UINT32_MAX) return std::nullopt;
    if ((factor * divisor - power) * largest < power)
      return Reciprocal{static_cast<uint32_t>(factor), shift};
  }
  return std::nullopt;
}

std::optional<std::string> MaybePtxQuotient(PtxText& text, UOp u) {
  if (!u.Is({Op::CDIV, Op::CMOD}) || Lanes(text.ctx(), u) != 0) return std::nullopt;
  const ir::Bounds x = text.ctx().BoundsOf(u.src(0)), d = text.ctx().BoundsOf(u.src(1));
  if (!x.known() || !d.known() || x.min < 0 || d.min < 1) return std::nullopt;
  const bool quotient = u.Is(Op::CDIV), is_long = IsLongInPtx(u.dtype());
  const PtxRegister kind = is_long ? kPtxLong : kPtxWord;
  const std::string value = text.Register(u.src(0));
  if (d.IsPoint() && (d.min & (d.min - 1)) == 0) {
    if (!quotient)
      return text.New(kind, is_long ? "and.b64" : "and.b32", value, ", ", Cat(int64_t(d.min) - 1));
    return text.New(kind, is_long ? "shr.u64" : "shr.u32", value, ", ",
                    std::countr_zero(static_cast<uint64_t>(d.min)));
  }
  if (d.IsPoint() && x.max <= UINT32_MAX && d.min <= UINT32_MAX) {
    const auto divisor = static_cast<uint32_t>(d.min);
    if (const auto r = ReciprocalOf(divisor, static_cast<uint32_t>(x.max))) {
      const std::string word = is_long ? text.New(kPtxWord, "cvt.u32.u64", value) : value;
      const WordDivision division{text, word, divisor};
      std::string out = quotient ? division.Quotient(*r) : division.Remainder(*r);
      return is_long ? text.New(kPtxLong, "cvt.u64.u32", out) : out;
    }
  }
  return text.New(kind, Cat(quotient ? "div" : "rem", is_long ? ".u64" : ".u32"), value, ", ",
                  text.Operand(u.src(1)));
}

}  // namespace uopd::render
