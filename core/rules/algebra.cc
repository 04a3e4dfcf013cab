// SPDX-License-Identifier: MIT
// Identities that hold bit for bit in every dtype that the rule names. For floats this includes
// NaN, infinities and signed zeros: x - 0 and x * 1 simplify; x + 0 does not (-0 + 0 is +0), x * 0
// does not (NaN).
#include "core/ir/build.h"
#include "core/rules/order.h"
#include "core/rules/rules.h"

namespace uopd::rules {
using namespace rewrite;  // NOLINT: the vocabulary of rules

namespace {
// Without unsigned dtypes: the literal -1 in a pattern also matches the largest u64.
constexpr DtypeSet kSignedInts =
    Only(Dtype::I8) | Only(Dtype::I16) | Only(Dtype::I32) | Only(Dtype::I64);

UOp Negative(UOpContext& ctx, UOp c) { return ctx.Float(c.dtype(), -c.const_float()); }
}  // namespace

const RuleSet& AlgebraRules() {
  static const RuleSet rules = Built("algebra", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Any<2> z;
    constexpr Const<4> c;
    constexpr Const<5> d;

    r.Add("add_zero", x.Is(kNotFloat) + 0, x);
    r.Add("sub_zero", x - 0, x, [](const auto& m) {
      return !ir::IsFloat(m.root().dtype()) || !std::signbit(m.root().src(1).const_float());
    });
    r.Add("mul_one", x * 1, x);
    r.Add("mul_zero", x.Is(kNotFloat) * 0, 0);
    r.Add("div_one", x / 1, x);
    r.Add("div_minus_one", x.Is(kSignedInts) / -1, 0 - x);
    r.Add("cdiv_one", Node(Op::CDIV, x, Literal(1)), x);
    r.Add("fdiv_one", Node(Op::FDIV, x, Literal(1)), x);
    r.Add("sub_self", x.Is(kNotFloat) - x, 0);
    r.Add("xor_zero", x ^ 0, x);
    r.Add("xor_self", x ^ x, 0);
    r.Add("xor_again", (x ^ y) ^ y, x);
    r.Add("mod_self", x % x, 0);  // 0 % 0 is 0
    r.Add("mod_again", (x % y) % y, x % y);
    r.Add("div_self", x / x, 1, [x](const auto& m) {
      const ir::Bounds b = m.ctx.BoundsOf(m[x]);
      return b.min > 0 || b.max < 0;
    });
    r.Add("and_self", x & x, x);
    r.Add("or_self", x | x, x);
    r.Add("and_zero", x & 0, 0);
    r.Add("or_zero", x | 0, x);
    r.Add("max_self", Max(x, x), x);
    r.Add("max_again", Max(Max(x.Is(kNotFloat), y), y), Max(x, y));
    r.Add("max_of_where_less", Where(x.Is(kNotFloat) < y, y, x), Max(x, y));
    r.Add("max_of_where_more", Where(Not(x.Is(kNotFloat) < y), x, y), Max(x, y));
    r.Add("neg_neg", Node(Op::NEG, Node(Op::NEG, x)), x);
    // The sign of a float product moves into its constant factor: exact for every x.
    r.Add("neg_of_product", Node(Op::NEG, Is(x, kFloats) * y), [x, y](const auto& m) -> UOp {
      return m[y].Is(Op::CONST) ? ir::Mul(m.ctx, m[x], Negative(m.ctx, m[y])) : UOp();
    });
    r.Add("product_of_neg", Node(Op::NEG, Is(x, kFloats)) * y, [x, y](const auto& m) -> UOp {
      return m[y].Is(Op::CONST) ? ir::Mul(m.ctx, m[x], Negative(m.ctx, m[y])) : UOp();
    });
    r.Add("lt_self", x < x, 0);
    r.Add("ne_self", x.Is(kNotFloat) != x, 0);
    r.Add("eq_self", x.Is(kNotFloat) == x, 1);
    r.Add("shl_zero", Node(Op::SHL, x, Literal(0)), x);
    // A mask is redundant if it clears only bits that are shifted out, or bits that are 0 anyway.
    r.Add("shr_of_mask", Node(Op::SHR, Is(x, kNotFloat) & c, d), [x, c, d](const auto& m) -> UOp {
      const int bits = ir::Bits(m[x].dtype());
      if (m[d] < 0 || m[d] >= bits) return UOp();
      const Int128 low = (Int128{1} << static_cast<int>(m[d])) - 1, all = (Int128{1} << bits) - 1;
      if (((m[c] | low) & all) != all) return UOp();
      return m.ctx.Make(Op::SHR, m[x].dtype(), {m[x], m.Node(d)});
    });
    r.Add("mask_all", Is(x, kNotFloat) & c, x, [x, c](const auto& m) {
      if (m[c] < 0 || (m[c] & (m[c] + 1)) != 0) return m[c] == -1;
      const ir::Bounds b = m.ctx.BoundsOf(m[x]);
      return b.min >= 0 && b.max <= m[c];
    });
    r.Add("shr_zero", Node(Op::SHR, x, Literal(0)), x);

    // Canonical operand order: constants to the right, everything else by Compare. Not for floats:
    // the order of float operands is visible in the payloads of NaNs.
    r.Add("order", Group(ir::kCommutativeOps, x.Is(kNotFloat), y), [x, y](const auto& m) -> UOp {
      if (m.root().Is(Op::ADD) && m.root().dtype() == Dtype::Index) return UOp();  // index.sum does
      if (Compare(m[x], m[y]) <= 0) return UOp();
      return m.ctx.Make(m.root().op(), m.root().dtype(), {m[y], m[x]});
    });
    r.Add("const_right", Group(OpSet{Op::ADD, Op::MUL}, Is(Node(Op::CONST), kFloats), y),
          [y](const auto& m) -> UOp {
            if (m[y].Is(Op::CONST)) return UOp();
            return m.ctx.Make(m.root().op(), m.root().dtype(), {m[y], m.root().src(0)});
          });
    // Stored integers wrap, so their constants combine.
    r.Add("add_add", (Is(x, kStoredInts) + c) + d, [x, c, d](const auto& m) -> UOp {
      return ir::Add(m.ctx, m[x], m.ctx.Int(m.root().dtype(), m[c] + m[d]));
    });
    r.Add("mul_mul", (Is(x, kStoredInts) * c) * d, [x, c, d](const auto& m) -> UOp {
      const auto a = static_cast<uint64_t>(m[c]), b = static_cast<uint64_t>(m[d]);
      const uint64_t product = a * b;  // wraps at 64 bits, and so at every width below
      return ir::Mul(m.ctx, m[x], m.ctx.Int(m.root().dtype(), static_cast<Int128>(product)));
    });
    r.Add("common_factor", x.Is(kStoredInts) * y + x * z, x * (y + z));
    // A floor of a floor. Does not apply if c * d does not fit the dtype.
    r.Add("div_div", (Is(x, kStoredInts) / c) / d, x / (c * d),
          [c, d](const auto& m) { return m[c] > 0 && m[d] > 0; });
    r.Add("and_and", (Is(x, kNotFloat) & c) & d, x & (c & d));
    r.Add("xor_xor", (Is(x, kNotFloat) ^ c) ^ d, x ^ (c ^ d));
    r.Add("max_max", Max(Max(x.Is(kNotFloat), c), d), Max(x, Max(c, d)));
    r.Add("or_or", (Is(x, kNotFloat) | c) | d, x | (c | d));

    r.Add("max_range", Group(OpSet{Op::MAX}, x.Is(kNotFloat), y), [x, y](const auto& m) -> UOp {
      const ir::Bounds a = m.ctx.BoundsOf(m[x]), b = m.ctx.BoundsOf(m[y]);
      return a.min >= b.max ? m[x] : b.min >= a.max ? m[y] : UOp();
    });
    r.Add("pow_one", Node(Op::POW, x, Literal(1)), x);
    r.Add("pow_zero", Node(Op::POW, x, Literal(0)), 1);  // also for x = NaN
    r.Add("trunc_trunc", Node(Op::TRUNC, Node(Op::TRUNC, x)),
          [](const auto& m) { return m.root().src(0); });
    // A converted integer has no fraction.
    r.Add("trunc_of_integer", Node(Op::TRUNC, Node(Op::CAST, x.Is(kNotFloat))),
          [](const auto& m) { return m.root().src(0); });
    r.Add("mulacc_zero", Node(Op::MULACC, x.Is(kNotFloat), Literal(0), y), y);
  });
  return rules;
}

}  // namespace uopd::rules
