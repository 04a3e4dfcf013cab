// SPDX-License-Identifier: MIT
// Rules for index arithmetic. An index is an exact integer, so sums have a normal form and terms
// may be moved freely.
#include <algorithm>
#include <numeric>

#include "core/ir/build.h"
#include "core/ir/context.h"
#include "core/rules/compare.h"
#include "core/rules/divmod.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// Simplification of the MAX of two index expressions (the rule index.max):
// max(g*a + c, g*b + c) == g * max(a, b) + c for g > 0. No rule moves anything back into a MAX, so
// equal maxima become equal nodes. Moved out are: terms that both sides have with the same factor;
// the smaller of two constants of equal sign; the greatest common factor of the rest.

// Removes the terms that a and b both have, with the same factor, and returns them.
Sum TakeCommonTerms(Sum& a, Sum& b) {
  Sum common;
  auto taken = [&](const Term& t) {
    auto same = [&](const Term& o) { return o.value == t.value && o.factor == t.factor; };
    const auto it = std::find_if(b.terms.begin(), b.terms.end(), same);
    if (it == b.terms.end()) return false;
    common.terms.push_back(t);
    b.terms.erase(it);
    return true;
  };
  a.terms.erase(std::remove_if(a.terms.begin(), a.terms.end(), taken), a.terms.end());
  return common;
}

// The greatest common divisor of g, the constant and all factors.
int64_t FactorOf(const Sum& sum, int64_t g) {
  g = std::gcd(g, sum.constant);
  for (const Term& t : sum.terms) g = std::gcd(g, t.factor);
  return g;
}

void Divide(Sum& sum, int64_t g) {
  sum.constant /= g;
  for (Term& t : sum.terms) t.factor /= g;
}

// A simpler expression equal to u, a MAX of index expressions; null if there is none. It is one
// side if that side is never smaller. Otherwise the common terms, constant and factor of both sides
// move out of the MAX.
UOp SimplifyMax(UOpContext& ctx, UOp u) {
  auto a = ToSum(ctx, u.src(0)), b = ToSum(ctx, u.src(1));
  if (!a || !b) return UOp();
  Sum common = TakeCommonTerms(*a, *b);
  if (!common.terms.empty()) {
    // Without the common terms the bounds are tighter: they may decide the MAX now.
    const ir::Bounds x = BoundsOf(ctx, *a), y = BoundsOf(ctx, *b);
    if (x.min >= y.max) return u.src(0);
    if (y.min >= x.max) return u.src(1);
  }
  // A constant moves out only if both sides have terms.
  if (!a->terms.empty() && !b->terms.empty() && (a->constant < 0) == (b->constant < 0)) {
    const bool first = std::abs(a->constant) < std::abs(b->constant);
    common.constant = first ? a->constant : b->constant;
    a->constant -= common.constant;
    b->constant -= common.constant;
  }
  const int64_t g = FactorOf(*b, FactorOf(*a, 0));
  if (g > 1) {
    Divide(*a, g);
    Divide(*b, g);
  }
  if (common.terms.empty() && common.constant == 0 && g <= 1) return UOp();
  UOp out = CheckedAlu(ctx, Op::MAX, FromSum(ctx, *a), FromSum(ctx, *b));
  if (g > 1) out = CheckedAlu(ctx, Op::MUL, out, ctx.Idx(g));
  if (common.terms.empty() && common.constant == 0) return out;
  return CheckedAlu(ctx, Op::ADD, out, FromSum(ctx, common));
}

// Whether u is op(x, c) with a constant c > 0.
bool IsDivBy(UOp u, Op op, int64_t& c) {
  if (!u.Is(op) || !u.src(1).Is(Op::CONST)) return false;
  c = u.src(1).const_int();
  return c > 0;
}

// Whether u equals x / c. x / c may have been simplified already, so u is also compared with the
// simplified form.
bool IsQuotient(UOpContext& ctx, UOp u, UOp x, int64_t c) {
  int64_t divisor;
  const bool quotient = IsDivBy(u, Op::FLOORDIV, divisor);
  if (quotient && u.src(0) == x && divisor == c) return true;
  // If x is not a sum, x / c simplifies only to a constant (and no term is a constant) or, for a
  // quotient or remainder x, to one other quotient or remainder.
  if (!x.Is(OpSet{Op::ADD, Op::SUB, Op::NEG, Op::MUL}) &&
      !(x.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}) && u.Is(OpSet{Op::FLOORDIV, Op::FLOORMOD}))) {
    return false;
  }
  return u == SimplifyFloorDiv(ctx, x, c);
}

// Merges f*(x % c) + f*c*(x / c) to f*x, and f*(x % c) + f*c*((x / c) % d) to f*(x % (c*d)). True
// if a pair was merged.
bool Recombine(UOpContext& ctx, Sum& sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    int64_t c;
    if (!IsDivBy(sum.terms[i].value, Op::FLOORMOD, c)) continue;
    const UOp x = sum.terms[i].value.src(0);
    int64_t factor;
    if (__builtin_mul_overflow(sum.terms[i].factor, c, &factor)) continue;
    for (size_t j = 0; j < sum.terms.size(); ++j) {
      if (sum.terms[j].factor != factor) continue;
      UOp high = sum.terms[j].value;
      int64_t d = 0;
      if (IsDivBy(high, Op::FLOORMOD, d)) high = high.src(0);
      if (!IsQuotient(ctx, high, x, c)) continue;
      if (d != 0 && Int128{c} * d >= Int128{1} << 62) continue;
      sum.terms[i].value = d == 0 ? x : ir::Alu(ctx, Op::FLOORMOD, {x, ctx.Idx(c * d)});
      sum.terms.erase(sum.terms.begin() + static_cast<ptrdiff_t>(j));
      return true;
    }
  }
  return false;
}

// Merges where(c, a, x) * f + where(c, b, y) * g to one WHERE if a and b, or x and y, are
// constants. True if a pair was merged.
bool MergeConditions(UOpContext& ctx, Sum& sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const UOp a = sum.terms[i].value;
    if (!a.Is(Op::WHERE)) continue;
    for (size_t j = i + 1; j < sum.terms.size(); ++j) {
      const UOp b = sum.terms[j].value;
      if (!b.Is(Op::WHERE) || b.src(0) != a.src(0)) continue;
      const bool constant = (a.src(1).Is(Op::CONST) && b.src(1).Is(Op::CONST)) ||
                            (a.src(2).Is(Op::CONST) && b.src(2).Is(Op::CONST));
      if (!constant) continue;
      UOp branch[2];
      for (size_t k = 0; k < 2; ++k) {
        branch[k] = CheckedAlu(
            ctx, Op::ADD, CheckedAlu(ctx, Op::MUL, a.src(k + 1), ctx.Idx(sum.terms[i].factor)),
            CheckedAlu(ctx, Op::MUL, b.src(k + 1), ctx.Idx(sum.terms[j].factor)));
      }
      if (!branch[0] || !branch[1]) continue;
      sum.terms[i] = {ir::Where(ctx, a.src(0), branch[0], branch[1]), 1};
      sum.terms.erase(sum.terms.begin() + static_cast<ptrdiff_t>(j));
      return true;
    }
  }
  return false;
}

UOp NormaliseSum(UOpContext& ctx, UOp u) {
  ir::OpSet values;
  const bool normal = IsNormalSum(u, values);  // the common case
  if (normal && !values.Has(Op::FLOORMOD) && !values.Has(Op::WHERE)) return UOp();
  auto sum = normal ? NormalSum(u) : ToSum(ctx, u);
  if (!sum) return UOp();
  // One merge at a time: the result is a sum, which the rules visit again.
  const bool merged = Recombine(ctx, *sum) || MergeConditions(ctx, *sum);
  return normal && !merged ? UOp() : FromSum(ctx, *sum, u);
}

}  // namespace

const RuleSet& IndexRules() {
  static const RuleSet rules = Built("index", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Any<2> z;
    constexpr Const<4> c;

    r.Add("sum", Group(OpSet{Op::ADD, Op::SUB, Op::NEG}, x.Is(kIndexOnly), Rest()),
          [](const auto& m) -> UOp { return NormaliseSum(m.ctx, m.root()); });
    r.Add("distribute", Is(x, kIndexOnly) * c, [x](const auto& m) -> UOp {
      return m[x].Is(OpSet{Op::ADD, Op::SUB, Op::NEG, Op::MUL}) ? NormaliseSum(m.ctx, m.root())
                                                                : UOp();
    });
    r.Add("mul_left", (Is(x, kIndexOnly) * c) * y, [x, y, c](const auto& m) -> UOp {
      if (m[y].Is(Op::CONST)) return UOp();
      return CheckedAlu(m.ctx, Op::MUL, CheckedAlu(m.ctx, Op::MUL, m[x], m[y]), m.Node(c));
    });
    r.Add("divmod", Group(OpSet{Op::FLOORDIV, Op::FLOORMOD}, x.Is(kIndexOnly), y),
          [](const auto& m) -> UOp { return SimplifyFloorDivMod(m.ctx, m.root()); });
    r.Add("less", Is(x, kIndexOnly) < y,
          [](const auto& m) -> UOp { return NormaliseLess(m.ctx, m.root()); });
    r.Add("equal", Group(OpSet{Op::CMPEQ, Op::CMPNE}, x.Is(kIndexOnly), y),
          [](const auto& m) -> UOp { return NormaliseEqual(m.ctx, m.root()); });
    r.Add("max", Max(x.Is(kIndexOnly), y),
          [](const auto& m) -> UOp { return SimplifyMax(m.ctx, m.root()); });
    // x < c || x == c, and x < c && x != c - 1: moves the end of the interval.
    r.Add("interval_end", Group(OpSet{Op::OR, Op::AND}, x.Is(kBools), y),
          [](const auto& m) -> UOp { return MoveEnd(m.ctx, m.root()); });
    // Gates of padded windows: the number of a row by what the gate says about its element.
    r.Add("known_sum", Node(Op::AND, x.Is(kBools), y),
          [](const auto& m) -> UOp { return DropKnownSum(m.ctx, m.root()); });
    // Truncating division equals floor division for x >= 0; for x <= 0 it is -(-x / y), and the
    // remainder is -(-x % y). For y >= 0.
    r.Add("cdiv", Group(OpSet{Op::CDIV, Op::CMOD}, x.Is(kIndexOnly), y),
          [x, y](const auto& m) -> UOp {
            const Op op = m.root().Is(Op::CDIV) ? Op::FLOORDIV : Op::FLOORMOD;
            const ir::Bounds a = m.ctx.BoundsOf(m[x]);
            if (m.ctx.BoundsOf(m[y]).min < 0) return UOp();
            if (a.min >= 0) return CheckedAlu(m.ctx, op, m[x], m[y]);
            if (a.max > 0) return UOp();
            const UOp minus = m.ctx.Idx(-1);
            return CheckedAlu(m.ctx, Op::MUL,
                              CheckedAlu(m.ctx, op, CheckedAlu(m.ctx, Op::MUL, m[x], minus), m[y]),
                              minus);
          });
    // Shifts and masks become multiplication, division and remainder.
    r.Add("shl", Node(Op::SHL, Is(x, kIndexOnly), c), [x, c](const auto& m) -> UOp {
      if (m[c] < 0 || m[c] > 61) return UOp();
      return CheckedAlu(m.ctx, Op::MUL, m[x], m.ctx.Idx(int64_t{1} << static_cast<int>(m[c])));
    });
    r.Add("shr", Node(Op::SHR, Is(x, kIndexOnly), c), [x, c](const auto& m) -> UOp {
      if (m[c] < 0 || m[c] > 61) return UOp();
      return ir::Alu(m.ctx, Op::FLOORDIV, {m[x], m.ctx.Idx(int64_t{1} << static_cast<int>(m[c]))});
    });
    r.Add("low_bits", Is(x, kIndexOnly) & c, [x, c](const auto& m) -> UOp {
      if (m[c] <= 0 || m[c] >= Int128{1} << 61 || (m[c] & (m[c] + 1)) != 0) return UOp();
      return ir::Alu(m.ctx, Op::FLOORMOD, {m[x], m.ctx.Idx(static_cast<int64_t>(m[c] + 1))});
    });
    r.Add("mulacc", Node(Op::MULACC, Is(x, kIndexOnly), y, z), [x, y, z](const auto& m) -> UOp {
      return CheckedAlu(m.ctx, Op::ADD, CheckedAlu(m.ctx, Op::MUL, m[x], m[y]), m[z]);
    });
  });
  return rules;
}

}  // namespace uopd::rules
