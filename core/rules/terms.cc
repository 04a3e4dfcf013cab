// SPDX-License-Identifier: MIT
#include "core/rules/terms.h"

#include <algorithm>

#include "core/ir/build.h"
#include "core/rules/order.h"

namespace uopd::rules {
namespace {

using ir::Int128;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

// These two return false if the result leaves 62 bits.
bool Multiply(int64_t a, int64_t b, int64_t& out) {
  return !__builtin_mul_overflow(a, b, &out) && FitsSum(out);
}
bool Accumulate(int64_t by, int64_t& sum) {
  return !__builtin_add_overflow(sum, by, &sum) && FitsSum(sum);
}

// Whether AddUp takes u apart.
bool IsSum(UOp u) {
  return u.Is(ir::OpSet{Op::ADD, Op::SUB, Op::NEG, Op::CONST}) ||
         (u.Is(Op::MUL) && (u.src(1).Is(Op::CONST) || u.src(0).Is(Op::CONST)));
}

// Adds factor * value at its place in the order of terms. REQUIRES: !IsSum(value).
bool AddTerm(UOp value, int64_t factor, Sum& sum) {
  auto& terms = sum.terms;
  const int c = terms.empty() ? -1 : Compare(terms.back().value, value);
  if (c < 0) {  // the common case: most operands are sums in order already
    terms.push_back({value, factor});
    return true;
  }
  if (c == 0) return Accumulate(factor, terms.back().factor);
  auto at = std::lower_bound(terms.begin(), terms.end(), value,
                             [](const Term& t, UOp v) { return Compare(t.value, v) < 0; });
  if (at->value == value) return Accumulate(factor, at->factor);
  terms.insert(at, Term{value, factor});
  return true;
}

// Adds factor * u, term by term from the left. False if a coefficient leaves 62 bits.
bool AddUp(UOp u, int64_t factor, Sum& sum) {
  absl::InlinedVector<Term, 16> later;
  while (true) {
    if (u.Is(Op::ADD) || u.Is(Op::SUB)) {
      later.push_back({u.src(1), u.Is(Op::ADD) ? factor : -factor});
      u = u.src(0);
      continue;
    }
    if (u.Is(Op::NEG)) {
      factor = -factor;
      u = u.src(0);
      continue;
    }
    if (u.Is(Op::CONST)) {
      int64_t v;
      if (__builtin_mul_overflow(u.const_int(), factor, &v) || !Accumulate(v, sum.constant))
        return false;
    } else if (u.Is(Op::MUL) && (u.src(1).Is(Op::CONST) || u.src(0).Is(Op::CONST))) {
      const size_t side = u.src(1).Is(Op::CONST) ? 1 : 0;
      if (!Multiply(factor, u.src(side).const_int(), factor)) return false;
      if (factor != 0) {
        u = u.src(1 - side);
        continue;
      }
    } else if (!AddTerm(u, factor, sum)) {
      return false;
    }
    if (later.empty()) return true;
    u = later.back().value;
    factor = later.back().factor;
    later.pop_back();
  }
}

// Drops terms with factor 0.
void DropZeros(Sum& sum) {
  auto zero = [](const Term& t) { return t.factor == 0; };
  if (std::none_of(sum.terms.begin(), sum.terms.end(), zero)) return;
  sum.terms.erase(std::remove_if(sum.terms.begin(), sum.terms.end(), zero), sum.terms.end());
}

}  // namespace

std::optional<Sum> ToSum(UOpContext&, UOp x) {
  std::optional<Sum> sum(std::in_place);
  if (!AddUp(x, 1, *sum)) return std::nullopt;
  DropZeros(*sum);
  return sum;
}

std::optional<Sum> ToSum(UOpContext&, UOp a, UOp b, int64_t factor) {
  std::optional<Sum> sum(std::in_place);
  if (!AddUp(a, 1, *sum) || !AddUp(b, factor, *sum)) return std::nullopt;
  DropZeros(*sum);
  return sum;
}

bool IsNormalSum(UOp x, ir::OpSet& values) {
  if (x.Is(Op::ADD) && x.src(1).Is(Op::CONST)) {
    if (x.src(1).const_int() == 0) return false;
    x = x.src(0);
  }
  for (UOp right;; x = x.src(0)) {  // from right to left
    const bool last = !x.Is(Op::ADD);
    UOp value = last ? x : x.src(1);
    if (value.Is(Op::MUL) && value.src(1).Is(Op::CONST)) {
      if (value.src(1).const_int() == 0 || value.src(1).const_int() == 1) return false;
      value = value.src(0);
    }
    if (IsSum(value) || (right && Compare(value, right) >= 0)) return false;
    values.Add(value.op());
    if (last) return true;
    right = value;
  }
}

std::optional<Sum> NormalSum(UOp x) {
  std::optional<Sum> sum(std::in_place);
  if (x.Is(Op::ADD) && x.src(1).Is(Op::CONST)) {
    sum->constant = x.src(1).const_int();
    if (!FitsSum(sum->constant)) return std::nullopt;
    x = x.src(0);
  }
  size_t n = 1;
  for (UOp u = x; u.Is(Op::ADD); u = u.src(0)) ++n;
  sum->terms.resize(n);
  for (; n-- > 0; x = x.src(0)) {  // from right to left
    const UOp value = n == 0 ? x : x.src(1);
    const bool product = value.Is(Op::MUL) && value.src(1).Is(Op::CONST);
    sum->terms[n] = product ? Term{value.src(0), value.src(1).const_int()} : Term{value, 1};
    if (!FitsSum(sum->terms[n].factor)) return std::nullopt;
    if (n == 0) break;
  }
  return sum;
}

bool FitsIndex(UOpContext& ctx, UOp u) {
  const ir::Bounds b = ctx.BoundsOf(u);
  return static_cast<int64_t>(b.min) == b.min && static_cast<int64_t>(b.max) == b.max;
}

UOp CheckedAlu(UOpContext& ctx, Op op, UOp maybe_a, UOp maybe_b) {
  if (!maybe_a || !maybe_b) return UOp();
  const UOp out = ir::Alu(ctx, op, {maybe_a, maybe_b});
  return out.dtype() != ir::Dtype::Index || FitsIndex(ctx, out) ? out : UOp();
}

namespace {
// Whether u is the node of the term: value, or value * factor.
bool IsTerm(UOp u, const Term& t) {
  if (t.factor == 1) return u == t.value;
  return u.Is(Op::MUL) && u.src(0) == t.value && u.src(1).Is(Op::CONST) &&
         u.src(1).const_int() == t.factor;
}
}  // namespace

UOp FromSum(UOpContext& ctx, const Sum& sum, UOp maybe_like) {
  absl::InlinedVector<UOp, 8> like;  // the nested ADDs of maybe_like, the outermost first
  UOp first = maybe_like;
  while (first && first.Is(Op::ADD)) {
    like.push_back(first);
    first = first.src(0);
  }
  UOp out;
  size_t done = 0;
  if (first && !sum.terms.empty() && IsTerm(first, sum.terms[0])) {
    for (out = first, done = 1; done < sum.terms.size() && !like.empty(); ++done) {
      if (!IsTerm(like.back().src(1), sum.terms[done])) break;
      out = like.back();
      like.pop_back();
    }
  }
  for (; done < sum.terms.size(); ++done) {
    const Term& t = sum.terms[done];
    UOp term = t.factor == 1 ? t.value : UOp();
    for (size_t i = like.size(); !term && i-- > 0;) {
      if (IsTerm(like[i].src(1), t)) term = like[i].src(1);
    }
    if (!term) term = CheckedAlu(ctx, Op::MUL, t.value, ctx.Idx(t.factor));
    if (!term) return UOp();
    out = out ? CheckedAlu(ctx, Op::ADD, out, term) : term;
    if (!out) return UOp();
  }
  if (!out) return ctx.Idx(sum.constant);
  if (sum.constant == 0) return out;
  if (!like.empty() && like.back().src(0) == out && like.back().src(1).IsConstInt(sum.constant))
    return like.back();
  return CheckedAlu(ctx, Op::ADD, out, ctx.Idx(sum.constant));
}

ir::Bounds Scaled(ir::Bounds b, int64_t factor) {
  const auto min = static_cast<int64_t>(b.min), max = static_cast<int64_t>(b.max);
  int64_t lo, hi;
  if (min == b.min && max == b.max && !__builtin_mul_overflow(min, factor, &lo) &&
      !__builtin_mul_overflow(max, factor, &hi)) {  // the common case
    return {std::min(lo, hi), std::max(lo, hi)};
  }
  // Too large to add up exactly: give up both ends. Clamping only one end would be wrong, because
  // two clamped ends of opposite sign could cancel.
  constexpr Int128 kExact = Int128{1} << 90, kHuge = Int128{1} << 110;
  auto product = [&](Int128 v, Int128& out) {
    return !__builtin_mul_overflow(v, Int128{factor}, &out) && out > -kExact && out < kExact;
  };
  Int128 x, y;
  if (!product(b.min, x) || !product(b.max, y)) return {-kHuge, kHuge};
  return {std::min(x, y), std::max(x, y)};
}

ir::Bounds BoundsOf(TermBounds bounds, const Sum& sum) {
  ir::Bounds out = {sum.constant, sum.constant};
  for (const Term& t : sum.terms) {
    const ir::Bounds b = Scaled(bounds(t.value), t.factor);
    out.min += b.min;
    out.max += b.max;
  }
  return out;
}
ir::Bounds BoundsOf(UOpContext& ctx, const Sum& sum) {
  ir::Bounds out = {sum.constant, sum.constant};
  for (const Term& t : sum.terms) {
    const ir::Bounds b = Scaled(ctx.BoundsOf(t.value), t.factor);
    out.min += b.min;
    out.max += b.max;
  }
  return out;
}

}  // namespace uopd::rules
