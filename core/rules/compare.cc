// SPDX-License-Identifier: MIT
#include "core/rules/compare.h"

#include <algorithm>
#include <numeric>

#include "absl/container/inlined_vector.h"
#include "core/ir/build.h"
#include "core/rules/divmod.h"
#include "core/rules/order.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using ir::Bounds;
using ir::Dtype;
using ir::Int128;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

int64_t CommonFactor(const Sum& sum) {
  int64_t g = 0;
  for (const Term& t : sum.terms) {
    g = std::gcd(g, t.factor);
    if (g == 1) break;
  }
  return g;
}

// Simplifies g * big + small < limit to big < ceil(limit / g) if the small terms can never decide
// the comparison. With limit = g * m - s and 0 <= s < g this requires -s <= small < g - s.
bool DropSmallTerms(TermBounds bounds, Sum& sum, Int128& limit) {
  for (const Term& candidate : sum.terms) {
    const int64_t g = std::abs(candidate.factor);
    if (g == 1) continue;
    Sum small;
    for (const Term& t : sum.terms) {
      if (t.factor % g != 0) small.terms.push_back(t);
    }
    if (small.terms.empty()) continue;
    const Int128 m = CeilDiv(limit, g), s = g * m - limit;
    const Bounds b = BoundsOf(bounds, small);
    if (b.min < -s || b.max >= g - s) continue;
    Sum big;
    for (const Term& t : sum.terms) {
      if (t.factor % g == 0) big.terms.push_back({t.value, t.factor / g});
    }
    sum = std::move(big);
    limit = m;
    return true;
  }
  return false;
}

// In a comparison of max(x, y) with `limit`: x if y is always below limit, or y if x is; else null.
UOp SideThatCounts(UOpContext& ctx, UOp value, Int128 limit) {
  for (size_t i = 0; i < 2 && value.Is(Op::MAX); ++i) {
    if (ctx.BoundsOf(value.src(i)).max < limit) return value.src(1 - i);
  }
  return UOp();
}

// The constant by which the sum `equal`, or its negation, exceeds the sum `less`; nullopt if their
// terms differ.
std::optional<Int128> Beside(const Sum& less, const Sum& equal) {
  if (less.terms.size() != equal.terms.size() || less.terms.empty()) return std::nullopt;
  const bool same = less.terms[0].factor == equal.terms[0].factor;
  for (size_t i = 0; i < less.terms.size(); ++i) {
    const Term &a = less.terms[i], &b = equal.terms[i];
    if (a.value != b.value || a.factor != (same ? b.factor : -b.factor)) return std::nullopt;
  }
  return Int128{same ? equal.constant : -equal.constant} - less.constant;
}

// v < limit for v = x % c as 0 <= t && t < limit, for the t of MaybeInWindow; null if there is
// none.
UOp InWindow(UOpContext& ctx, UOp v, Int128 limit) {
  if (!v.Is(Op::FLOORMOD) || !v.src(1).Is(Op::CONST) || limit < 1) return UOp();
  const int64_t c = v.src(1).const_int();
  const auto x = ToSum(ctx, v.src(0));
  if (!x || c <= 0 || limit >= c) return UOp();
  const auto t = MaybeInWindow([&](UOp u) { return ctx.BoundsOf(u); }, *x, c, limit);
  const UOp value = t ? FromSum(ctx, *t) : UOp();
  if (!value) return UOp();
  return ir::And(ctx, ir::Not(ctx, ir::Lt(ctx, value, ctx.Idx(0))),
                 ir::Lt(ctx, value, ctx.Int(Dtype::Index, limit)));
}

}  // namespace

UOp MoveEnd(UOpContext& ctx, UOp u) {
  const bool either = u.Is(Op::OR);
  for (size_t i = 0; i < 2; ++i) {
    const UOp equal = u.src(1 - i);
    if (!equal.Is(either ? Op::CMPEQ : Op::CMPNE)) continue;
    const UOp inner = MaybeNegated(u.src(i)), less = inner ? inner : u.src(i);
    if (!less.Is(Op::CMPLT) || less.src(0).dtype() != Dtype::Index) continue;
    if (equal.src(0).dtype() != Dtype::Index) continue;
    const auto a = ToDifference(ctx, less.src(0), less.src(1));
    const auto b = ToDifference(ctx, equal.src(0), equal.src(1));
    const auto by = a && b ? Beside(*a, *b) : std::nullopt;
    // For sum < 0 the first value outside is 0 and the last value inside is -1; for !(sum < 0) the
    // other way round.
    const bool below = !inner;
    if (!by || *by != (below == either ? 0 : 1)) continue;
    // The interval gets one value more or one value less.
    const UOp limit = CheckedAlu(ctx, Op::ADD, less.src(1), ctx.Idx(below == either ? 1 : -1));
    if (!limit) continue;
    const UOp out = ir::Lt(ctx, less.src(0), limit);
    return below ? out : ir::Not(ctx, out);
  }
  return UOp();
}

UOp MaybeNegated(UOp u) {
  return u.Is(Op::CMPNE) && u.src(1).IsConstInt(1) && u.src(1).dtype() == Dtype::Bool ? u.src(0)
                                                                                      : UOp();
}

namespace {

// g * big + small < 0 as big < m, for sum = g * big and a small in [min, max] that never decides,
// as in DropSmallTerms; else null.
UOp WithoutSmall(UOpContext& ctx, const Sum& sum, Int128 min, Int128 max) {
  if (sum.terms.empty()) return UOp();
  const int64_t g = CommonFactor(sum);
  const Int128 limit = -Int128{sum.constant}, m = CeilDiv(limit, g), s = g * m - limit;
  if (g <= 1 || min < -s || max >= g - s || m >= INT64_MAX || m <= INT64_MIN) return UOp();
  Sum big;
  for (const Term& t : sum.terms) big.terms.push_back({t.value, t.factor / g});
  const UOp value = FromSum(ctx, big);
  return value ? ir::Lt(ctx, value, ctx.Int(Dtype::Index, m)) : UOp();
}

// Whether c compares a sum, negated or not.
bool ComparesSum(UOp c) { return c.Is(Op::CMPLT) && c.src(0).Is(Op::ADD); }

}  // namespace

UOp DropKnownSum(UOpContext& ctx, UOp u) {
  constexpr size_t kMostParts = 12;
  struct Part {
    UOp condition;
    bool holds;
    std::optional<Bounded> bound;
  };
  absl::InlinedVector<Part, 8> parts;
  int sums = 0;
  ForEachPart(u, true, [&](UOp c, bool holds) {
    parts.push_back({c, holds, std::nullopt});
    sums += ComparesSum(c);
    return parts.size() <= kMostParts;
  });
  if (sums < 2 || parts.size() > kMostParts) return UOp();
  for (Part& p : parts) p.bound = AsBound(ctx, p.condition, p.holds);
  for (size_t i = 0; i < parts.size(); ++i) {
    const UOp less = parts[i].condition;
    if (!parts[i].holds || !ComparesSum(less) || !parts[i].bound) continue;
    const auto sum = ToDifference(ctx, less.src(0), less.src(1));
    const UOp whole = sum && sum->terms.size() > 1 ? FromSum(ctx, *sum) : UOp();
    if (!whole) continue;
    for (const Part& other : parts) {
      if (!other.bound || !other.bound->value.Is(Op::ADD)) continue;
      const UOp known = other.bound->value;
      if (known == parts[i].bound->value) continue;
      Bounds b = other.bound->bounds;
      for (const Part& p : parts) {
        if (!p.bound || p.bound->value != known) continue;
        b.min = std::max(b.min, p.bound->bounds.min);
        b.max = std::min(b.max, p.bound->bounds.max);
      }
      // The conjunct without +known or -known.
      UOp out;
      for (const int64_t sign : {1, -1}) {
        const Int128 min = sign > 0 ? b.min : -b.max, max = sign > 0 ? b.max : -b.min;
        const auto rest = ToSum(ctx, whole, known, -sign);
        if (!out && rest && rest->terms.size() < sum->terms.size())
          out = WithoutSmall(ctx, *rest, min, max);
      }
      if (!out) continue;
      for (size_t k = 0; k < parts.size(); ++k) {
        if (k == i) continue;
        const UOp c = parts[k].condition;
        out = ir::And(ctx, out, parts[k].holds ? c : ir::Not(ctx, c));
      }
      return out;
    }
  }
  return UOp();
}

bool SimplifiesCompare(TermBounds bounds, Op op, Sum sum) {
  const Bounds b = BoundsOf(bounds, sum);
  if (b.max < 0 || b.min > 0 || b.IsPoint()) return true;
  if (op != Op::CMPLT) return false;
  if (b.min == 0) return true;
  const int64_t g = CommonFactor(sum);
  Int128 limit = CeilDiv(-Int128{sum.constant}, g);
  for (Term& t : sum.terms) t.factor /= g;
  return DropSmallTerms(bounds, sum, limit);
}

UOp NormaliseLess(UOpContext& ctx, UOp u) {
  ir::OpSet values;
  // True if u already has the form terms < constant.
  bool same = u.src(1).Is(Op::CONST) && IsNormalSum(u.src(0), values) &&
              !(u.src(0).Is(Op::ADD) && u.src(0).src(1).Is(Op::CONST));
  auto sum = ToDifference(ctx, u.src(0), u.src(1));
  if (!sum) return UOp();
  if (sum->terms.empty()) return ctx.Bool(sum->constant < 0);
  Int128 limit = -Int128{sum->constant};  // terms < limit
  sum->constant = 0;
  while (true) {
    if (const int64_t g = CommonFactor(*sum); g != 1) {
      limit = CeilDiv(limit, g);
      same = false;
      for (Term& t : sum->terms) t.factor /= g;
    }
    if (!DropSmallTerms([&](UOp v) { return ctx.BoundsOf(v); }, *sum, limit)) break;
    same = false;
  }
  // terms < 1 with nonnegative terms and positive factors says that every term is 0: the factors do
  // not matter.
  if (limit == 1) {
    const bool simplex = std::all_of(sum->terms.begin(), sum->terms.end(), [&](const Term& t) {
      return t.factor > 0 && ctx.BoundsOf(t.value).min >= 0;
    });
    for (Term& t : sum->terms) {
      if (!simplex || t.factor == 1) continue;
      t.factor = 1;
      same = false;
    }
  }
  if (sum->terms.size() == 1 && sum->terms[0].factor == 1) {
    const UOp v = sum->terms[0].value;
    if (const UOp window = InWindow(ctx, v, limit)) return window;
    if (v.Is(Op::FLOORDIV) && v.src(1).Is(Op::CONST) && v.src(1).const_int() > 0) {
      limit *= v.src(1).const_int();  // x / d < n == x < n * d
      sum->terms[0].value = v.src(0);
      same = false;
    }
  }
  const bool negative = sum->terms[0].factor < 0;
  if (negative) {  // -x < n == !(x < 1 - n)
    for (Term& t : sum->terms) t.factor = -t.factor;
    limit = 1 - limit;
  }
  if (sum->terms.size() == 1 && sum->terms[0].factor == 1) {
    if (const UOp side = SideThatCounts(ctx, sum->terms[0].value, limit)) {
      if (limit > INT64_MAX) return UOp();
      const UOp less = ir::Lt(ctx, side, ctx.Int(Dtype::Index, limit));
      return negative ? ir::Not(ctx, less) : less;
    }
  }
  if (same && !negative) return u;
  if (limit <= INT64_MIN || limit > INT64_MAX) return UOp();
  const UOp terms = FromSum(ctx, *sum, u.src(0));
  if (!terms) return UOp();
  const UOp less = ir::Lt(ctx, terms, ctx.Int(Dtype::Index, limit));
  return negative ? ir::Not(ctx, less) : less;
}

UOp NormaliseEqual(UOpContext& ctx, UOp u) {
  auto sum = ToDifference(ctx, u.src(0), u.src(1));
  if (!sum) return UOp();
  if (sum->terms.empty()) return ctx.Bool((sum->constant == 0) == u.Is(Op::CMPEQ));
  const int64_t g = CommonFactor(*sum);
  if (sum->constant % g != 0) return ctx.Bool(u.Is(Op::CMPNE));
  const int64_t sign = sum->terms[0].factor < 0 ? -1 : 1;
  for (Term& t : sum->terms) t.factor = t.factor / g * sign;
  int64_t constant = -(sum->constant / g) * sign;
  UOp left, right;
  if (sum->terms.size() == 2 && sum->terms[0].factor == 1 && sum->terms[1].factor == -1) {
    left = sum->terms[0].value;
    right = sum->terms[1].value;
    if (constant != 0) right = CheckedAlu(ctx, Op::ADD, right, ctx.Idx(constant));
  } else {
    sum->constant = 0;
    left = FromSum(ctx, *sum);
    right = ctx.Idx(constant);
    if (left) {
      if (const UOp side = SideThatCounts(ctx, left, constant)) left = side;
    }
  }
  if (!left || !right) return UOp();
  // algebra.order would swap the operands later: use its order at once.
  if (Compare(left, right) > 0) std::swap(left, right);
  return ir::Alu(ctx, u.op(), {left, right});
}

std::optional<Bounded> AsBound(UOpContext& ctx, UOp condition, bool holds) {
  while (const UOp inner = MaybeNegated(condition)) {
    condition = inner;
    holds = !holds;
  }
  if (!condition.Is(ir::kComparisonOps)) return std::nullopt;
  UOp value = condition.src(0), other = condition.src(1);
  if (value.dtype() != Dtype::Index) return std::nullopt;
  const bool swapped = value.Is(Op::CONST);
  if (swapped) std::swap(value, other);
  if (!other.Is(Op::CONST) || value.Is(Op::CONST)) return std::nullopt;
  const Int128 c = other.const_int();
  Bounds b = ctx.BoundsOf(value);
  if (condition.Is(Op::CMPLT)) {
    if (swapped)
      holds ? b.min = std::max(b.min, c + 1) : b.max = std::min(b.max, c);
    else
      holds ? b.max = std::min(b.max, c - 1) : b.min = std::max(b.min, c);
  } else if (condition.Is(holds ? Op::CMPEQ : Op::CMPNE)) {
    b.min = std::max(b.min, c);
    b.max = std::min(b.max, c);
  } else {  // not equal: helps only if c is an end of the interval
    b.min += b.min == c;
    b.max -= b.max == c;
  }
  return Bounded{value, b};
}

void ForEachPart(UOp condition, bool holds, absl::FunctionRef<bool(UOp, bool)> part) {
  absl::InlinedVector<std::pair<UOp, bool>, 8> stack = {{condition, holds}};
  while (!stack.empty()) {
    const auto [c, true_here] = stack.back();
    stack.pop_back();
    if (const UOp inner = MaybeNegated(c)) {
      stack.emplace_back(inner, !true_here);
    } else if (c.Is(true_here ? Op::AND : Op::OR) && c.dtype() == Dtype::Bool) {
      stack.emplace_back(c.src(1), true_here);
      stack.emplace_back(c.src(0), true_here);
    } else if (!part(c, true_here)) {
      return;
    }
  }
}

}  // namespace uopd::rules
