// SPDX-License-Identifier: MIT
// Everything here follows from one fact: with floor semantics, x = c*a + b gives x / c = a + b / c
// and x % c = b % c, whatever the signs. The work is in choosing a and b so that b's interval lies
// in one period [q*c, (q+1)*c).
#include "core/rules/divmod.h"

#include <numeric>

#include "core/ir/build.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using ir::Bounds;
using ir::Int128;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

Int128 FloorDiv(Int128 a, Int128 b) { return a / b - ((a % b != 0) && (a < 0)); }

// x == c * quotient + rest, and if `period` is set, rest lies in [period*c, (period+1)*c).
struct Split {
  Sum quotient, rest;
  std::optional<int64_t> period;
};

std::optional<int64_t> PeriodOf(UOpContext& ctx, const Sum& rest, int64_t c) {
  const Bounds b = BoundsOf(ctx, rest);
  const Int128 lo = FloorDiv(b.min, c);
  if (lo != FloorDiv(b.max, c)) return std::nullopt;
  return static_cast<int64_t>(lo);
}

// Moves exact multiples of c into the quotient; if the rest still spans periods, tries every factor
// modulo c.
Split SplitBy(UOpContext& ctx, const Sum& sum, int64_t c) {
  Split s;
  for (const Term& t : sum.terms) {
    if (t.factor % c == 0)
      s.quotient.terms.push_back({t.value, t.factor / c});
    else
      s.rest.terms.push_back(t);
  }
  s.quotient.constant = static_cast<int64_t>(FloorDiv(sum.constant, c));
  s.rest.constant = sum.constant - s.quotient.constant * c;
  s.period = PeriodOf(ctx, s.rest, c);
  if (s.period) return s;

  // Congruence: factors may be replaced by anything equal modulo c; the one of smallest magnitude
  // narrows the interval most.
  Split t;
  for (const Term& term : sum.terms) {
    int64_t r = term.factor % c;
    if (r > c / 2) r -= c;
    if (r < -(c / 2)) r += c;
    const int64_t q = (term.factor - r) / c;
    if (q != 0) t.quotient.terms.push_back({term.value, q});
    if (r != 0) t.rest.terms.push_back({term.value, r});
  }
  t.quotient.constant = s.quotient.constant, t.rest.constant = s.rest.constant;
  t.period = PeriodOf(ctx, t.rest, c);
  return t.period ? t : s;
}

Sum Scaled(const Sum& sum, int64_t factor, int64_t divisor) {
  Sum out;
  for (const Term& t : sum.terms) out.terms.push_back({t.value, t.factor / divisor * factor});
  return out;
}

int64_t GcdOfFactors(const Sum& sum, int64_t c) {
  int64_t g = c;
  for (const Term& t : sum.terms) g = std::gcd(g, t.factor);
  return g;
}

UOp AddSums(UOpContext& ctx, const Sum& sum, UOp extra, int64_t factor) {
  const UOp scaled = factor == 1 ? extra : ir::Mul(ctx, extra, ctx.Idx(factor));
  if (sum.terms.empty() && sum.constant == 0) return scaled;
  return ir::Add(ctx, FromSum(ctx, sum), scaled);
}

// A factor f of some term with 1 < f < c, f | c, for which the rest modulo f is already in one
// period: then the division nests exactly, x / c = (x / f) / (c / f).
std::optional<std::pair<int64_t, Split>> Nesting(UOpContext& ctx, const Sum& rest, int64_t c) {
  for (const Term& t : rest.terms) {
    const int64_t f = std::gcd(t.factor, c);
    if (f <= 1 || f >= c) continue;
    Split s = SplitBy(ctx, rest, f);
    if (s.period) return std::pair(f, s);
  }
  return std::nullopt;
}

}  // namespace

UOp SimplifyFloorDiv(UOpContext& ctx, UOp x, int64_t c) {
  if (x.Is(Op::FLOORDIV) && x.src(1).Is(Op::CONST) && x.src(1).const_int() > 0) {
    const Int128 product = Int128{x.src(1).const_int()} * c;
    if (product < Int128{1} << 62)
      return ir::Alu(ctx, Op::FLOORDIV, {x.src(0), ctx.Int(ir::Dtype::Index, product)});
  }
  if (x.Is(Op::FLOORMOD) && x.src(1).Is(Op::CONST)) {  // (x % (k*c)) / c == (x / c) % k
    const int64_t m = x.src(1).const_int();
    if (m > 0 && m % c == 0) {
      return ir::Alu(ctx, Op::FLOORMOD,
                     {ir::Alu(ctx, Op::FLOORDIV, {x.src(0), ctx.Idx(c)}), ctx.Idx(m / c)});
    }
  }
  const auto sum = ToSum(ctx, x);
  if (!sum) return UOp();
  Split s = SplitBy(ctx, *sum, c);
  if (s.period) {
    s.quotient.constant += *s.period;
    return FromSum(ctx, s.quotient);
  }
  const bool moved = !s.quotient.terms.empty() || s.quotient.constant != 0;
  const int64_t g = GcdOfFactors(s.rest, c);
  if (g > 1) {
    Sum inner = Scaled(s.rest, 1, g);
    inner.constant = s.rest.constant / g;  // 0 <= constant, so this floors
    return AddSums(ctx, s.quotient,
                   ir::Alu(ctx, Op::FLOORDIV, {FromSum(ctx, inner), ctx.Idx(c / g)}), 1);
  }
  if (auto nest = Nesting(ctx, s.rest, c)) {
    auto& [f, inner] = *nest;
    inner.quotient.constant += *inner.period;
    return AddSums(ctx, s.quotient,
                   ir::Alu(ctx, Op::FLOORDIV, {FromSum(ctx, inner.quotient), ctx.Idx(c / f)}), 1);
  }
  if (!moved) return UOp();
  return AddSums(ctx, s.quotient, ir::Alu(ctx, Op::FLOORDIV, {FromSum(ctx, s.rest), ctx.Idx(c)}),
                 1);
}

UOp SimplifyFloorMod(UOpContext& ctx, UOp x, int64_t c) {
  if (x.Is(Op::FLOORMOD) && x.src(1).Is(Op::CONST) && x.src(1).const_int() > 0 &&
      x.src(1).const_int() % c == 0) {
    return ir::Alu(ctx, Op::FLOORMOD, {x.src(0), ctx.Idx(c)});
  }
  const auto sum = ToSum(ctx, x);
  if (!sum) return UOp();
  // Inside a sum under % c, an inner % m with c | m changes nothing.
  Sum plain;
  bool unwrapped = false;
  for (const Term& t : sum->terms) {
    const bool inner = t.value.Is(Op::FLOORMOD) && t.value.src(1).Is(Op::CONST) &&
                       t.value.src(1).const_int() > 0 && t.value.src(1).const_int() % c == 0;
    plain.terms.push_back({inner ? t.value.src(0) : t.value, t.factor});
    unwrapped |= inner;
  }
  plain.constant = sum->constant;
  if (unwrapped) return ir::Alu(ctx, Op::FLOORMOD, {FromSum(ctx, plain), ctx.Idx(c)});

  Split s = SplitBy(ctx, *sum, c);
  if (s.period) {
    s.rest.constant -= *s.period * c;
    return FromSum(ctx, s.rest);
  }
  const bool moved = !s.quotient.terms.empty() || s.quotient.constant != 0;
  const int64_t g = GcdOfFactors(s.rest, c);
  if (g > 1) {
    Sum inner = Scaled(s.rest, 1, g), low;
    inner.constant = s.rest.constant / g, low.constant = s.rest.constant % g;
    return AddSums(ctx, low, ir::Alu(ctx, Op::FLOORMOD, {FromSum(ctx, inner), ctx.Idx(c / g)}), g);
  }
  if (auto nest = Nesting(ctx, s.rest, c)) {
    auto& [f, inner] = *nest;
    inner.quotient.constant += *inner.period;
    inner.rest.constant -= *inner.period * f;
    return AddSums(ctx, inner.rest,
                   ir::Alu(ctx, Op::FLOORMOD, {FromSum(ctx, inner.quotient), ctx.Idx(c / f)}), f);
  }
  return moved ? ir::Alu(ctx, Op::FLOORMOD, {FromSum(ctx, s.rest), ctx.Idx(c)}) : UOp();
}

}  // namespace uopd::rules
