// SPDX-License-Identifier: MIT
// Identities that hold bit for bit in every dtype that the rule names. Float rules keep NaN,
// infinities and signed zeros: x + 0 is not one of them (-0 + 0 is 0), x * 0 is not (NaN), x - 0
// and x * 1 are.
#include "core/ir/build.h"
#include "core/rules/order.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// A cast that loses nothing, so that casting back gives the same value.
bool Lossless(Dtype from, Dtype to) {
  if (from == to || from == Dtype::Bool) return true;
  if (ir::IsFloat(from) || ir::IsFloat(to)) {
    if (!ir::IsFloat(to)) return false;
    if (!ir::IsFloat(from))
      return to == Dtype::F64 ? ir::Bits(from) <= 32 : to == Dtype::F32 && ir::Bits(from) <= 16;
    return to == Dtype::F64 || (to == Dtype::F32 && ir::Bits(from) < 32);
  }
  const ir::IntRange a = ir::RangeOf(from), b = ir::RangeOf(to);
  return b.min <= a.min && a.max <= b.max;
}

}  // namespace

const RuleSet& AlgebraRules() {
  static const RuleSet rules = Built("algebra", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Const<4> c;
    constexpr Const<5> d;

    r.Add("add_zero", x.Is(kNotFloat) + 0, x);
    r.Add("sub_zero", x - 0, x, [](const auto& m) {
      return !ir::IsFloat(m.root().dtype()) || !std::signbit(m.root().src(1).const_float());
    });
    r.Add("mul_one", x * 1, x);
    r.Add("mul_zero", x.Is(kNotFloat) * 0, 0);
    r.Add("div_one", x / 1, x);
    r.Add("mod_one", x % 1, 0);
    r.Add("cdiv_one", Node(Op::CDIV, x, Literal(1)), x);
    r.Add("cmod_one", Node(Op::CMOD, x, Literal(1)), 0);
    r.Add("fdiv_one", Node(Op::FDIV, x, Literal(1)), x);
    r.Add("sub_self", x.Is(kNotFloat) - x, 0);
    r.Add("xor_zero", x ^ 0, x);
    r.Add("xor_self", x ^ x, 0);
    r.Add("and_self", x & x, x);
    r.Add("or_self", x | x, x);
    r.Add("and_zero", x & 0, 0);
    r.Add("or_zero", x | 0, x);
    r.Add("max_self", Max(x, x), x);
    r.Add("neg_neg", Node(Op::NEG, Node(Op::NEG, x)), x);
    r.Add("lt_self", x < x, 0);
    r.Add("ne_self", x.Is(kNotFloat) != x, 0);
    r.Add("eq_self", x.Is(kNotFloat) == x, 1);
    r.Add("shl_zero", Node(Op::SHL, x, Literal(0)), x);
    r.Add("shr_zero", Node(Op::SHR, x, Literal(0)), x);

    // Constants to the right, then everything in structural order. Exact ops only: operand order is
    // visible in the NaN payloads of float ops and nowhere else, so floats keep the order they came
    // in.
    r.Add("order", Group(ir::kCommutativeOps, x.Is(kNotFloat), y), [x, y](const auto& m) -> UOp {
      if (m.root().Is(Op::ADD) && m.root().dtype() == Dtype::Index) return UOp();  // index.sum does
      if (Compare(m[x], m[y]) <= 0) return UOp();
      return m.ctx.Make(m.root().op(), m.root().dtype(), {m[y], m[x]});
    });
    r.Add("const_right", Group(OpSet{Op::ADD, Op::MUL}, x.Is(kFloats), y),
          [x, y](const auto& m) -> UOp {
            if (!m[x].Is(Op::CONST) || m[y].Is(Op::CONST)) return UOp();
            return m.ctx.Make(m.root().op(), m.root().dtype(), {m[y], m[x]});
          });
    // Stored integers wrap, so wrapped constants combine.
    r.Add("add_add", (Is(x, kStoredInts) + c) + d, [x, c, d](const auto& m) -> UOp {
      return ir::Add(m.ctx, m[x], m.ctx.Int(m.root().dtype(), m[c] + m[d]));
    });
    r.Add("mul_mul", (Is(x, kStoredInts) * c) * d, [x, c, d](const auto& m) -> UOp {
      const auto a = static_cast<uint64_t>(m[c]), b = static_cast<uint64_t>(m[d]);
      const uint64_t product = a * b;  // wraps at 64 bits, and so at every width below
      return ir::Mul(m.ctx, m[x], m.ctx.Int(m.root().dtype(), static_cast<Int128>(product)));
    });
    r.Add("and_and", (Is(x, kNotFloat) & c) & d, x & (c & d));
    r.Add("or_or", (Is(x, kNotFloat) | c) | d, x | (c | d));

    r.Add("cast_same", Node(Op::CAST, x), x,
          [x](const auto& m) { return m[x].dtype() == m.root().dtype(); });
    r.Add("bitcast_same", Node(Op::BITCAST, x), x,
          [x](const auto& m) { return m[x].dtype() == m.root().dtype(); });
    r.Add("bitcast_bitcast", Node(Op::BITCAST, Node(Op::BITCAST, x)),
          [x](const auto& m) -> UOp { return ir::Bitcast(m.ctx, m[x], m.root().dtype()); });
    r.Add("cast_cast", Node(Op::CAST, Node(Op::CAST, x)), [x](const auto& m) -> UOp {
      if (!Lossless(m[x].dtype(), m.root().src(0).dtype())) return UOp();
      return ir::Cast(m.ctx, m[x], m.root().dtype());
    });
    r.Add("max_range", Group(OpSet{Op::MAX}, x.Is(kNotFloat), y), [x, y](const auto& m) -> UOp {
      const ir::Bounds a = m.ctx.BoundsOf(m[x]), b = m.ctx.BoundsOf(m[y]);
      return a.min >= b.max ? m[x] : b.min >= a.max ? m[y] : UOp();
    });
    r.Add("mulacc_zero", Node(Op::MULACC, x.Is(kNotFloat), Literal(0), y), y);
  });
  return rules;
}

}  // namespace uopd::rules
