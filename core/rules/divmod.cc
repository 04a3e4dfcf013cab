// SPDX-License-Identifier: MIT
// The basic fact: with floor semantics, x = c*a + b implies x / c = a + b / c and x % c = b % c for
// all signs. The algorithm chooses a and b so that the interval of b lies in one period
// [q*c, (q+1)*c); then b / c is the constant q.
#include "core/rules/divmod.h"

#include <algorithm>
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

bool Fits(Int128 v) { return v < Int128{1} << 62 && v > -(Int128{1} << 62); }

// x == c * quotient + rest. If `period` is set, rest lies in [period*c, (period+1)*c).
struct Split {
  Sum quotient, rest;
  std::optional<int64_t> period;
};

// The period that contains every value of `rest`; nullopt if there is none.
std::optional<int64_t> PeriodOf(TermBounds bounds, const Sum& rest, int64_t c) {
  const Bounds b = BoundsOf(bounds, rest);
  const Int128 lo = FloorDiv(b.min, c);
  if (lo != FloorDiv(b.max, c) || !Fits(lo) || !Fits(lo * c)) return std::nullopt;
  return static_cast<int64_t>(lo);
}

// Splits with every factor of the rest reduced modulo c into [lowest, lowest + c). `constant`: the
// constant of the rest.
Split SplitAt(TermBounds bounds, const Sum& sum, int64_t constant, int64_t c, int64_t lowest) {
  Split s;
  for (const Term& term : sum.terms) {
    int64_t r = term.factor % c;
    if (r >= lowest + c) r -= c;
    if (r < lowest) r += c;
    const int64_t q = (term.factor - r) / c;
    if (q != 0) s.quotient.terms.push_back({term.value, q});
    if (r != 0) s.rest.terms.push_back({term.value, r});
  }
  s.quotient.constant = (sum.constant - constant) / c;
  s.rest.constant = constant;
  s.period = PeriodOf(bounds, s.rest, c);
  return s;
}

// Moves exact multiples of c into the quotient. If the rest still spans several periods, tries
// other representatives of the factors modulo c.
Split SplitBy(TermBounds bounds, const Sum& sum, int64_t c) {
  Split s;
  for (const Term& t : sum.terms) {
    if (t.factor % c == 0)
      s.quotient.terms.push_back({t.value, t.factor / c});
    else
      s.rest.terms.push_back(t);
  }
  s.quotient.constant = static_cast<int64_t>(FloorDiv(sum.constant, c));
  s.rest.constant = sum.constant - s.quotient.constant * c;
  s.period = PeriodOf(bounds, s.rest, c);
  if (s.period) return s;

  // A factor may be replaced by any number congruent to it modulo c. The representative of smallest
  // magnitude gives the narrowest interval; c / 2 has two of them. Exception: for a single term
  // with two possible values the wider interval may be the one that lies in a period.
  bool smallest = true, half = false, two = false;
  for (const Term& t : s.rest.terms) {
    smallest &= t.factor <= c / 2 && t.factor >= -(c / 2);
    half |= t.factor % c == c / 2 || t.factor % c == -(c / 2);
  }
  half &= c % 2 == 0;
  if (s.rest.terms.size() == 1) {
    const Bounds b = bounds(s.rest.terms[0].value);
    two = b.max - b.min == 1;
  }
  if (smallest && !half && !two) return s;
  const int64_t near = -((c - 1) / 2);  // c / 2 stays positive
  absl::InlinedVector<int64_t, 4> lowest = {near};
  if (half) lowest.push_back(near - 1);
  if (two) {
    lowest.push_back(0);
    lowest.push_back(1 - c);
  }
  for (int64_t first : lowest) {
    Split t = SplitAt(bounds, sum, s.rest.constant, c, first);
    if (t.period) return t;
  }
  // A rest that leaves its period only by less than c below: a condition can exclude that. So the
  // rows of a padded axis that is repeated, which begin one element later each time, have plain
  // indices where a condition says that they are inside: (r*58 + i) / 59 becomes r + (i - r) / 59.
  Split t = SplitAt(bounds, sum, s.rest.constant, c, near);
  const Bounds b = BoundsOf(bounds, t.rest);
  return b.min > -c && b.max < c && t.rest.terms.size() == s.rest.terms.size() ? t : s;
}

// The terms of the sum divided by `divisor`, which divides every factor. The constant is dropped.
Sum Divided(const Sum& sum, int64_t divisor) {
  Sum out;
  for (const Term& t : sum.terms) out.terms.push_back({t.value, t.factor / divisor});
  return out;
}

// The greatest common divisor of c and all factors.
int64_t GcdOfFactors(const Sum& sum, int64_t c) {
  int64_t g = c;
  for (const Term& t : sum.terms) {
    if (g == 1) break;
    g = std::gcd(g, t.factor);
  }
  return g;
}

// sum + factor * maybe_extra; null if maybe_extra is null or the result does not fit 64 bits.
UOp AddSums(UOpContext& ctx, const Sum& sum, UOp maybe_extra, int64_t factor) {
  if (!maybe_extra) return UOp();
  const UOp scaled =
      factor == 1 ? maybe_extra : CheckedAlu(ctx, Op::MUL, maybe_extra, ctx.Idx(factor));
  if (sum.terms.empty() && sum.constant == 0) return scaled;
  return CheckedAlu(ctx, Op::ADD, FromSum(ctx, sum), scaled);
}

// A common divisor f of c and a factor, 1 < f < c, for which the rest lies in one period of f. Then
// x / c = (x / f) / (c / f), and x / f is a sum without divisions.
std::optional<std::pair<int64_t, Split>> Nesting(TermBounds bounds, const Sum& rest, int64_t c) {
  for (const Term& t : rest.terms) {
    const int64_t f = std::gcd(t.factor, c);
    if (f <= 1 || f >= c) continue;
    Split s = SplitBy(bounds, rest, f);
    if (s.period) return std::pair(f, s);
  }
  return std::nullopt;
}

// c if u is op(x, c) with a positive constant c (op: FLOORDIV or FLOORMOD), else 0.
int64_t Divisor(UOp u, Op op) {
  return u.Is(op) && u.src(1).Is(Op::CONST) ? std::max<int64_t>(0, u.src(1).const_int()) : 0;
}

// (v / e + a) / c == (v + a * e) / (c * e)
UOp MergeNested(UOpContext& ctx, const Sum& sum, int64_t c) {
  if (sum.terms.size() != 1 || sum.terms[0].factor != 1) return UOp();
  const UOp v = sum.terms[0].value;
  const int64_t e = Divisor(v, Op::FLOORDIV);
  const Int128 shift = Int128{sum.constant} * e;
  if (e == 0 || !Fits(Int128{e} * c) || !Fits(shift)) return UOp();
  UOp x = v.src(0);
  if (shift != 0) x = CheckedAlu(ctx, Op::ADD, x, ctx.Int(ir::Dtype::Index, shift));
  return CheckedAlu(ctx, Op::FLOORDIV, x, ctx.Idx(e * c));
}

// The factors of a product, left to right.
using Factors = absl::InlinedVector<UOp, 4>;
Factors FactorsOf(UOp product) {
  Factors out, stack = {product};
  while (!stack.empty()) {
    const UOp u = stack.back();
    stack.pop_back();
    if (u.Is(Op::MUL)) {
      stack.push_back(u.src(1));
      stack.push_back(u.src(0));
    } else
      out.push_back(u);
  }
  return out;
}

// value / by, or null if the factors of `by` are not all factors of the value.
UOp DivideExactly(UOpContext& ctx, UOp value, const Factors& by) {
  Factors left = FactorsOf(value);
  for (UOp f : by) {
    const auto it = std::find(left.begin(), left.end(), f);
    if (it == left.end()) return UOp();
    left.erase(it);
  }
  UOp out = left.empty() ? ctx.Idx(1) : left[0];
  for (size_t i = 1; out && i < left.size(); ++i) out = CheckedAlu(ctx, Op::MUL, out, left[i]);
  return out;
}

// A divisor that is no constant: factor * product, factor > 0.
struct SymbolicDivisor {
  UOp product;
  int64_t factor = 1;
};
SymbolicDivisor AsProduct(UOp y) {
  if (y.Is(Op::MUL) && y.src(1).Is(Op::CONST) && y.src(1).const_int() > 0)
    return {y.src(0), y.src(1).const_int()};
  return {y};
}

// Moves the terms that are multiples of the symbolic divisor y into the quotient. With `factor` =
// false the divisor is y.product alone.
Split SplitBySymbol(UOpContext& ctx, const Sum& sum, const SymbolicDivisor& y, bool factor) {
  Split s;
  s.rest.constant = sum.constant;
  const Factors by = FactorsOf(y.product);
  const int64_t k = factor ? y.factor : 1;
  for (const Term& t : sum.terms) {
    const UOp q = t.factor % k == 0 ? DivideExactly(ctx, t.value, by) : UOp();
    if (!q || (q.Is(Op::CONST) && q.const_int() != 1)) {
      s.rest.terms.push_back(t);
    } else if (q.Is(Op::CONST)) {
      s.quotient.constant += t.factor / k;
    } else {
      s.quotient.terms.push_back({q, t.factor / k});
    }
  }
  return s;
}

// x / y or x % y for y = k * v:
//   if x = v * q + r with 0 <= r < v:  x / y = q / k  and  x % y = v * (q % k) + r
//   if x = k * q + r with 0 <= r < k:  x / y = q / v  and  x % y = k * (q % v) + r
UOp DivideByParts(UOpContext& ctx, const Sum& x, const SymbolicDivisor& y, bool is_div) {
  if (y.factor == 1) return UOp();
  const UOp k = ctx.Idx(y.factor);
  const Split all = SplitBySymbol(ctx, x, y, /*factor=*/false);
  if (!all.quotient.terms.empty() || all.quotient.constant != 0) {
    const UOp r = FromSum(ctx, all.rest), q = FromSum(ctx, all.quotient);
    const UOp over = CheckedAlu(ctx, Op::FLOORDIV, r, y.product);
    const UOp zero = over && !r.IsConstInt(0) ? SimplifyFloorDivMod(ctx, over) : r;
    if (zero && zero.IsConstInt(0)) {
      if (is_div) return CheckedAlu(ctx, Op::FLOORDIV, q, k);
      const UOp high = CheckedAlu(ctx, Op::MUL, CheckedAlu(ctx, Op::FLOORMOD, q, k), y.product);
      return r.IsConstInt(0) ? high : CheckedAlu(ctx, Op::ADD, high, r);
    }
  }
  Split s = SplitBy([&](UOp u) { return ctx.BoundsOf(u); }, x, y.factor);
  if (!s.period || ctx.BoundsOf(y.product).min <= 0) return UOp();
  s.quotient.constant += *s.period;
  s.rest.constant -= *s.period * y.factor;
  const UOp q = FromSum(ctx, s.quotient);
  const UOp out = CheckedAlu(ctx, is_div ? Op::FLOORDIV : Op::FLOORMOD, q, y.product);
  if (is_div || !out) return out;
  // Use the second form of % only if q % v itself simplifies; otherwise it is no simpler than x %
  // y.
  const UOp low = SimplifyFloorDivMod(ctx, out);
  return low ? AddSums(ctx, s.rest, low, y.factor) : UOp();
}

// (w / c) / y == w / (c * y) and (w / c) % y == (w % (c * y)) / c, for c > 0 and y > 0. Null unless
// the division of w by c * y simplifies.
UOp MergeWithSymbol(UOpContext& ctx, const Sum& x, const SymbolicDivisor& y, bool is_div) {
  if (x.terms.size() != 1 || x.terms[0].factor != 1 || x.constant != 0) return UOp();
  const UOp w = x.terms[0].value;
  const int64_t c = Divisor(w, Op::FLOORDIV);
  int64_t factor;
  if (c == 0 || __builtin_mul_overflow(c, y.factor, &factor) || !Fits(factor)) return UOp();
  const UOp divisor = CheckedAlu(ctx, Op::MUL, y.product, ctx.Idx(factor));
  const UOp all = CheckedAlu(ctx, is_div ? Op::FLOORDIV : Op::FLOORMOD, w.src(0), divisor);
  const UOp out = divisor && all ? SimplifyFloorDivMod(ctx, all) : UOp();
  return is_div ? out : CheckedAlu(ctx, Op::FLOORDIV, out, ctx.Idx(c));
}

}  // namespace

std::optional<Sum> MaybeInWindow(TermBounds bounds, const Sum& sum, int64_t c, Int128 limit) {
  const Split s = SplitBy(bounds, sum, c);
  if (s.period) return std::nullopt;
  const Bounds b = BoundsOf(bounds, s.rest);
  if (b.min >= 0 || b.max >= c || b.min + c < limit) return std::nullopt;
  return s.rest;
}

bool SimplifiesDivMod(TermBounds bounds, const Sum& sum, int64_t c) {
  const Split s = SplitBy(bounds, sum, c);
  return s.period || !s.quotient.terms.empty() || s.quotient.constant != 0 ||
         GcdOfFactors(s.rest, c) > 1 || Nesting(bounds, s.rest, c);
}

UOp SimplifyFloorDiv(UOpContext& ctx, UOp x, int64_t c) {
  if (const int64_t m = Divisor(x, Op::FLOORMOD); m > 0 && m % c == 0) {
    // (x % (k*c)) / c == (x / c) % k
    return ir::Alu(ctx, Op::FLOORMOD,
                   {ir::Alu(ctx, Op::FLOORDIV, {x.src(0), ctx.Idx(c)}), ctx.Idx(m / c)});
  }
  const auto sum = ToSum(ctx, x);
  if (!sum) return UOp();
  auto bounds = [&](UOp u) { return ctx.BoundsOf(u); };
  Split s = SplitBy(bounds, *sum, c);
  if (s.period) {
    s.quotient.constant += *s.period;
    return FromSum(ctx, s.quotient);
  }
  if (const UOp merged = MergeNested(ctx, *sum, c)) return merged;
  const bool moved = !s.quotient.terms.empty() || s.quotient.constant != 0;
  const int64_t g = GcdOfFactors(s.rest, c);
  if (g > 1) {
    Sum inner = Divided(s.rest, g);
    inner.constant = s.rest.constant / g;  // the constant is not negative, so this is a floor
    return AddSums(ctx, s.quotient,
                   CheckedAlu(ctx, Op::FLOORDIV, FromSum(ctx, inner), ctx.Idx(c / g)), 1);
  }
  if (auto nest = Nesting(bounds, s.rest, c)) {
    auto& [f, inner] = *nest;
    inner.quotient.constant += *inner.period;
    return AddSums(ctx, s.quotient,
                   CheckedAlu(ctx, Op::FLOORDIV, FromSum(ctx, inner.quotient), ctx.Idx(c / f)), 1);
  }
  if (!moved) return UOp();
  return AddSums(ctx, s.quotient, CheckedAlu(ctx, Op::FLOORDIV, FromSum(ctx, s.rest), ctx.Idx(c)),
                 1);
}

UOp SimplifyFloorMod(UOpContext& ctx, UOp x, int64_t c) {
  if (const int64_t m = Divisor(x, Op::FLOORMOD); m > 0 && m % c == 0) {
    return ir::Alu(ctx, Op::FLOORMOD, {x.src(0), ctx.Idx(c)});
  }
  const auto sum = ToSum(ctx, x);
  if (!sum) return UOp();
  // (x % m + y) % c == (x + y) % c if c divides m: drop such inner remainders.
  auto is_inner = [&](const Term& t) {
    const int64_t m = Divisor(t.value, Op::FLOORMOD);
    return m > 0 && m % c == 0;
  };
  if (std::any_of(sum->terms.begin(), sum->terms.end(), is_inner)) {
    Sum plain = *sum;
    for (Term& t : plain.terms) {
      if (is_inner(t)) t.value = t.value.src(0);
    }
    if (const UOp out = CheckedAlu(ctx, Op::FLOORMOD, FromSum(ctx, plain), ctx.Idx(c))) return out;
  }

  auto bounds = [&](UOp u) { return ctx.BoundsOf(u); };
  Split s = SplitBy(bounds, *sum, c);
  if (s.period) {
    s.rest.constant -= *s.period * c;
    return FromSum(ctx, s.rest);
  }
  const bool moved = !s.quotient.terms.empty() || s.quotient.constant != 0;
  const int64_t g = GcdOfFactors(s.rest, c);
  if (g > 1) {
    Sum inner = Divided(s.rest, g), low;
    inner.constant = s.rest.constant / g;
    low.constant = s.rest.constant % g;
    return AddSums(ctx, low, CheckedAlu(ctx, Op::FLOORMOD, FromSum(ctx, inner), ctx.Idx(c / g)), g);
  }
  if (auto nest = Nesting(bounds, s.rest, c)) {
    auto& [f, inner] = *nest;
    inner.quotient.constant += *inner.period;
    inner.rest.constant -= *inner.period * f;
    return AddSums(ctx, inner.rest,
                   CheckedAlu(ctx, Op::FLOORMOD, FromSum(ctx, inner.quotient), ctx.Idx(c / f)), f);
  }
  return moved ? CheckedAlu(ctx, Op::FLOORMOD, FromSum(ctx, s.rest), ctx.Idx(c)) : UOp();
}

UOp SimplifyFloorDivMod(UOpContext& ctx, UOp u) {
  const UOp x = u.src(0), y = u.src(1);
  const bool is_div = u.Is(Op::FLOORDIV);
  const Bounds b = ctx.BoundsOf(y);
  if (y.Is(Op::CONST) && y.const_int() > 0) {
    return is_div ? SimplifyFloorDiv(ctx, x, y.const_int())
                  : SimplifyFloorMod(ctx, x, y.const_int());
  }
  if (y.Is(Op::CONST) && y.const_int() < 0 && y.const_int() > INT64_MIN) {
    // x / -c == -x / c, x % -c == -(-x % c)
    const UOp minus = CheckedAlu(ctx, Op::MUL, x, ctx.Idx(-1));
    const UOp out = CheckedAlu(ctx, u.op(), minus, ctx.Idx(-y.const_int()));
    return is_div ? out : CheckedAlu(ctx, Op::MUL, out, ctx.Idx(-1));
  }
  if (b.min <= 0 && b.max >= 0) return UOp();  // division by zero gives 0
  if (x == y) return ctx.Idx(is_div ? 1 : 0);
  const Bounds quotient = ctx.BoundsOf(ir::Alu(ctx, Op::FLOORDIV, {x, y}));
  if (quotient.IsPoint() && FitsIndex(ctx, y)) {
    const UOp q = ctx.Int(ir::Dtype::Index, quotient.min);
    if (is_div) return q;
    return quotient.min == 0 ? x : CheckedAlu(ctx, Op::SUB, x, CheckedAlu(ctx, Op::MUL, y, q));
  }
  // A RANGE is below its own size.
  if (x.Is(Op::RANGE) && x.src(0) == y) return is_div ? ctx.Idx(0) : x;
  const auto sum = ToSum(ctx, x);
  if (!sum) return UOp();
  const SymbolicDivisor divisor = AsProduct(y);
  if (b.min > 0) {
    if (const UOp out = MergeWithSymbol(ctx, *sum, divisor, is_div)) return out;
  }
  const Split s = SplitBySymbol(ctx, *sum, divisor, /*factor=*/true);
  if (s.quotient.terms.empty() && s.quotient.constant == 0)
    return DivideByParts(ctx, *sum, divisor, is_div);
  const UOp rest = FromSum(ctx, s.rest);
  if (!is_div) return CheckedAlu(ctx, Op::FLOORMOD, rest, y);
  if (rest && rest.IsConstInt(0)) return FromSum(ctx, s.quotient);
  return AddSums(ctx, s.quotient, CheckedAlu(ctx, Op::FLOORDIV, rest, y), 1);
}

}  // namespace uopd::rules
