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

}  // namespace

std::optional<Sum> ToSum(UOpContext& ctx, UOp x) {
  Sum sum;
  absl::InlinedVector<std::pair<UOp, int64_t>, 16> stack = {{x, 1}};
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
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const Term& a, const Term& b) { return Compare(a.value, b.value) < 0; });
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

UOp FromSum(UOpContext& ctx, const Sum& sum) {
  UOp out;
  for (const Term& t : sum.terms) {
    const UOp term = t.factor == 1 ? t.value : ir::Mul(ctx, t.value, ctx.Idx(t.factor));
    out = out ? ir::Add(ctx, out, term) : term;
  }
  if (!out) return ctx.Idx(sum.constant);
  return sum.constant == 0 ? out : ir::Add(ctx, out, ctx.Idx(sum.constant));
}

ir::Bounds BoundsOf(UOpContext& ctx, const Sum& sum) {
  ir::Bounds out = {sum.constant, sum.constant};
  for (const Term& t : sum.terms) {
    const ir::Bounds b = ctx.BoundsOf(t.value);
    const Int128 x = b.min * t.factor, y = b.max * t.factor;
    out.min += std::min(x, y), out.max += std::max(x, y);
  }
  return out;
}

Division DivideExactParts(const Sum& sum, int64_t c) {
  Division d;
  for (const Term& t : sum.terms) {
    const int64_t q = t.factor / c,
                  r = t.factor % c;  // truncating: |r| < c, with the sign of the factor
    if (q != 0) d.quotient.terms.push_back({t.value, q});
    if (r != 0) d.rest.terms.push_back({t.value, r});
  }
  int64_t q = sum.constant / c, r = sum.constant % c;
  if (r < 0) r += c, --q;
  d.quotient.constant = q, d.rest.constant = r;
  return d;
}

}  // namespace uopd::rules
