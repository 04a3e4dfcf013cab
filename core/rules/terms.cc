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

constexpr Int128 kLimit = Int128{1} << 62;
bool Fits(Int128 v) { return v > -kLimit && v < kLimit; }

using Parts = absl::InlinedVector<std::pair<UOp, int64_t>, 16>;  // value, factor

// What the parts, the last one first, add up to.
std::optional<Sum> AddUp(Parts stack) {
  Sum sum;
  auto scaled = [](int64_t a, int64_t b) -> std::optional<int64_t> {
    const Int128 v = Int128{a} * b;
    return Fits(v) ? std::optional(static_cast<int64_t>(v)) : std::nullopt;
  };
  while (!stack.empty()) {
    auto [u, factor] = stack.back();
    stack.pop_back();
    if (u.Is(Op::ADD)) {
      stack.emplace_back(u.src(1), factor);
      stack.emplace_back(u.src(0), factor);
    } else if (u.Is(Op::SUB)) {
      stack.emplace_back(u.src(1), -factor);
      stack.emplace_back(u.src(0), factor);
    } else if (u.Is(Op::NEG)) {
      stack.emplace_back(u.src(0), -factor);
    } else if (u.Is(Op::CONST)) {
      const Int128 v = Int128{u.const_int()} * factor + sum.constant;
      if (!Fits(v)) return std::nullopt;
      sum.constant = static_cast<int64_t>(v);
    } else if (u.Is(Op::MUL) && (u.src(1).Is(Op::CONST) || u.src(0).Is(Op::CONST))) {
      const int side = u.src(1).Is(Op::CONST) ? 1 : 0;
      auto f = scaled(factor, u.src(side).const_int());
      if (!f) return std::nullopt;
      if (*f != 0) stack.emplace_back(u.src(1 - side), *f);
    } else {
      sum.terms.push_back({u, factor});
    }
  }
  auto less = [](const Term& a, const Term& b) { return Compare(a.value, b.value) < 0; };
  // Mostly in order already, since sums are made of sums.
  if (sum.terms.size() > 1 && !std::is_sorted(sum.terms.begin(), sum.terms.end(), less))
    std::sort(sum.terms.begin(), sum.terms.end(), less);
  size_t out = 0;
  for (const Term& t : sum.terms) {
    if (out > 0 && sum.terms[out - 1].value == t.value) {
      const Int128 f = Int128{sum.terms[out - 1].factor} + t.factor;
      if (!Fits(f)) return std::nullopt;
      sum.terms[out - 1].factor = static_cast<int64_t>(f);
    } else {
      if (out > 0 && sum.terms[out - 1].factor == 0) --out;
      sum.terms[out++] = t;
    }
  }
  if (out > 0 && sum.terms[out - 1].factor == 0) --out;
  sum.terms.resize(out);
  return sum;
}

// A value that ToSum takes apart.
bool IsSum(UOp u) {
  return u.Is(ir::OpSet{Op::ADD, Op::SUB, Op::NEG, Op::CONST}) ||
         (u.Is(Op::MUL) && (u.src(1).Is(Op::CONST) || u.src(0).Is(Op::CONST)));
}

}  // namespace

std::optional<Sum> ToSum(UOpContext&, UOp x) { return AddUp({{x, 1}}); }
std::optional<Sum> ToDifference(UOpContext&, UOp a, UOp b) { return AddUp({{b, -1}, {a, 1}}); }

std::optional<Sum> NormalSum(UOp x) {
  Sum sum;
  if (x.Is(Op::ADD) && x.src(1).Is(Op::CONST)) {
    sum.constant = x.src(1).const_int();
    if (sum.constant == 0) return std::nullopt;
    x = x.src(0);
  }
  for (bool last = false; !last;) {  // from right to left
    last = !x.Is(Op::ADD);
    Term t = {last ? x : x.src(1), 1};
    if (t.value.Is(Op::MUL) && t.value.src(1).Is(Op::CONST)) {
      t = {t.value.src(0), t.value.src(1).const_int()};
      if (t.factor == 0 || t.factor == 1) return std::nullopt;
    }
    if (IsSum(t.value)) return std::nullopt;
    if (!sum.terms.empty() && Compare(t.value, sum.terms.back().value) >= 0) return std::nullopt;
    sum.terms.push_back(t);
    if (!last) x = x.src(0);
  }
  std::reverse(sum.terms.begin(), sum.terms.end());
  return sum;
}

bool FitsIndex(UOpContext& ctx, UOp u) {
  const ir::IntRange range = ir::RangeOf(ir::Dtype::Index);
  return ctx.BoundsOf(u).Within({range.min, range.max});
}

UOp CheckedAlu(UOpContext& ctx, Op op, UOp maybe_a, UOp maybe_b) {
  if (!maybe_a || !maybe_b) return UOp();
  const UOp out = ir::Alu(ctx, op, {maybe_a, maybe_b});
  return out.dtype() != ir::Dtype::Index || FitsIndex(ctx, out) ? out : UOp();
}

UOp FromSum(UOpContext& ctx, const Sum& sum) {
  UOp out;
  for (const Term& t : sum.terms) {
    UOp term = t.value;
    if (t.factor != 1) term = CheckedAlu(ctx, Op::MUL, term, ctx.Idx(t.factor));
    if (!term) return UOp();
    out = out ? CheckedAlu(ctx, Op::ADD, out, term) : term;
    if (!out) return UOp();
  }
  if (!out) return ctx.Idx(sum.constant);
  return sum.constant == 0 ? out : CheckedAlu(ctx, Op::ADD, out, ctx.Idx(sum.constant));
}

ir::Bounds BoundsOf(TermBounds bounds, const Sum& sum) {
  static constexpr Int128 kHuge = Int128{1} << 100;
  auto scaled = [](Int128 v, int64_t factor) {
    Int128 out;
    if (__builtin_mul_overflow(v, Int128{factor}, &out))
      return (v < 0) == (factor < 0) ? kHuge : -kHuge;
    return std::clamp(out, -kHuge, kHuge);
  };
  ir::Bounds out = {sum.constant, sum.constant};
  for (const Term& t : sum.terms) {
    const ir::Bounds b = bounds(t.value);
    const Int128 x = scaled(b.min, t.factor), y = scaled(b.max, t.factor);
    out.min += std::min(x, y), out.max += std::max(x, y);
  }
  return out;
}
ir::Bounds BoundsOf(UOpContext& ctx, const Sum& sum) {
  return BoundsOf([&](UOp u) { return ctx.BoundsOf(u); }, sum);
}

}  // namespace uopd::rules
