// SPDX-License-Identifier: MIT
// Index arithmetic: exact integers, so sums have a normal form and every rule may move terms
// freely.
#include <numeric>

#include "core/ir/build.h"
#include "core/rules/divmod.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

bool IsDivBy(UOp u, Op op, int64_t& c) {
  if (!u.Is(op) || !u.src(1).Is(Op::CONST)) return false;
  c = u.src(1).const_int();
  return c > 0;
}

// f*(x % c) + f*c*(x / c) == f*x, and f*(x % c) + f*c*((x / c) % d) == f*(x % (c*d)). True if a
// pair was merged.
bool Recombine(UOpContext& ctx, Sum& sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    int64_t c;
    if (!IsDivBy(sum.terms[i].value, Op::FLOORMOD, c)) continue;
    const UOp x = sum.terms[i].value.src(0);
    for (size_t j = 0; j < sum.terms.size(); ++j) {
      if (Int128{sum.terms[i].factor} * c != sum.terms[j].factor) continue;
      UOp high = sum.terms[j].value;
      int64_t d = 0;
      if (IsDivBy(high, Op::FLOORMOD, d)) high = high.src(0);
      // x / c may have been simplified to another form, so compare with what it simplifies to.
      const UOp plain = ir::Alu(ctx, Op::FLOORDIV, {x, ctx.Idx(c)});
      const UOp simple = SimplifyFloorDiv(ctx, x, c);
      if (high != plain && high != simple) continue;
      if (d != 0 && Int128{c} * d >= Int128{1} << 62) continue;
      sum.terms[i].value = d == 0 ? x : ir::Alu(ctx, Op::FLOORMOD, {x, ctx.Idx(c * d)});
      sum.terms.erase(sum.terms.begin() + static_cast<ptrdiff_t>(j));
      return true;
    }
  }
  return false;
}

UOp NormaliseSum(UOpContext& ctx, UOp u) {
  auto sum = ToSum(ctx, u);
  if (!sum) return UOp();
  Recombine(ctx, *sum);  // what it leaves is a sum again, rewritten in its turn
  return FromSum(ctx, *sum);
}

// sum < 0 with the constant moved right and common factors divided out: terms / g < ceil(-constant
// / g).
UOp NormaliseLess(UOpContext& ctx, UOp u) {
  const UOp difference = u.src(1).IsConstInt(0) ? u.src(0) : ir::Sub(ctx, u.src(0), u.src(1));
  auto sum = ToSum(ctx, difference);
  if (!sum || sum->terms.empty()) return UOp();
  int64_t g = 0;
  for (const Term& t : sum->terms) g = std::gcd(g, t.factor);
  const Int128 bound = -Int128{sum->constant};
  const Int128 limit = bound / g + (bound % g > 0);  // rounded up
  for (Term& t : sum->terms) t.factor /= g;
  sum->constant = 0;
  if (sum->terms.size() == 1 && sum->terms[0].factor == 1) {
    int64_t d;
    const UOp v = sum->terms[0].value;
    if (IsDivBy(v, Op::FLOORDIV, d))
      return ir::Lt(ctx, v.src(0), ctx.Int(Dtype::Index, limit * d));  // x / d < n == x < n*d
  }
  // -x < n == -n < x == !(x < 1 - n)
  if (sum->terms[0].factor < 0) {
    for (Term& t : sum->terms) t.factor = -t.factor;
    return ir::Not(ctx, ir::Lt(ctx, FromSum(ctx, *sum), ctx.Int(Dtype::Index, 1 - limit)));
  }
  return ir::Lt(ctx, FromSum(ctx, *sum), ctx.Int(Dtype::Index, limit));
}

}  // namespace

const RuleSet& IndexRules() {
  static const RuleSet rules = Built("index", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> y;
    constexpr Const<4> c;

    r.Add("sum", Group(OpSet{Op::ADD, Op::SUB, Op::NEG}, x.Is(kIndexOnly), Rest()),
          [](const auto& m) -> UOp { return NormaliseSum(m.ctx, m.root()); });
    r.Add("distribute", Is(x, kIndexOnly) * c, [x](const auto& m) -> UOp {
      return m[x].Is(OpSet{Op::ADD, Op::SUB, Op::NEG, Op::MUL}) ? NormaliseSum(m.ctx, m.root())
                                                                : UOp();
    });
    r.Add("mul_left", (Is(x, kIndexOnly) * c) * y, (x * y) * c,
          [y](const auto& m) { return !m[y].Is(Op::CONST); });
    r.Add("div", Is(x, kIndexOnly) / c, [x, c](const auto& m) -> UOp {
      return m[c] > 0 ? SimplifyFloorDiv(m.ctx, m[x], static_cast<int64_t>(m[c])) : UOp();
    });
    r.Add("mod", Is(x, kIndexOnly) % c, [x, c](const auto& m) -> UOp {
      return m[c] > 0 ? SimplifyFloorMod(m.ctx, m[x], static_cast<int64_t>(m[c])) : UOp();
    });
    r.Add("div_self_range", Is(x, kIndexOnly) / y, 0,
          [x, y](const auto& m) {  // symbolic divisor: 0 <= x < y
            const ir::Bounds a = m.ctx.BoundsOf(m[x]);
            return m[x].Is(Op::RANGE) && m[x].src(0) == m[y] && a.min >= 0 &&
                   m.ctx.BoundsOf(m[y]).min > 0;
          });
    r.Add("mod_self_range", Is(x, kIndexOnly) % y, x, [x, y](const auto& m) {
      return m[x].Is(Op::RANGE) && m[x].src(0) == m[y] && m.ctx.BoundsOf(m[y]).min > 0;
    });
    r.Add("less", Is(x, kIndexOnly) < y,
          [](const auto& m) -> UOp { return NormaliseLess(m.ctx, m.root()); });
    // Truncating and flooring agree when nothing is negative.
    r.Add("cdiv", Group(OpSet{Op::CDIV, Op::CMOD}, x.Is(kIndexOnly), y),
          [x, y](const auto& m) -> UOp {
            if (m.ctx.BoundsOf(m[x]).min < 0 || m.ctx.BoundsOf(m[y]).min < 0) return UOp();
            return ir::Alu(m.ctx, m.root().Is(Op::CDIV) ? Op::FLOORDIV : Op::FLOORMOD,
                           {m[x], m[y]});
          });
  });
  return rules;
}

}  // namespace uopd::rules
