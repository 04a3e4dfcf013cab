// SPDX-License-Identifier: MIT
// max(g*a + c, g*b + c) == g * max(a, b) + c for g > 0. No rule moves anything back into a MAX, so
// equal maxima become equal nodes. Moved out are: terms that both sides have with the same factor;
// the smaller of two constants of equal sign; the greatest common factor of the rest.
#include "core/rules/maximum.h"

#include <algorithm>
#include <numeric>

#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

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

}  // namespace

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

}  // namespace uopd::rules
