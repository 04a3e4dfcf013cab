// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online/row_part.h"

#include <algorithm>
#include <cmath>

namespace uopd::codegen {
namespace {

using ir::Op;
using ir::UOp;
using Kind = RowPart::Kind;
using Rule = std::optional<RowRule>;

Rule Of(Kind kind, double amount, std::vector<RowPart::Factor> factors = {}, int keep = -1) {
  if (kind == Kind::kShift && amount == 0) kind = Kind::kFree;
  return RowRule{{kind, amount, UOp(), std::move(factors)}, keep};
}

std::vector<RowPart::Factor> Both(const RowPart& a, const RowPart& b) {
  std::vector<RowPart::Factor> out = a.factors;
  out.insert(out.end(), b.factors.begin(), b.factors.end());
  return out;
}

// A finite constant other than 0.
bool IsNumber(const RowPart& p) {
  return p.value.Is(Op::CONST) && ir::IsFloat(p.value.dtype()) &&
         std::isfinite(p.value.const_float()) && p.value.const_float() != 0;
}

bool IsPlain(const RowPart& p) { return p.kind == Kind::kFree && p.factors.empty(); }
bool HasDegree(const RowPart& p) { return p.kind == Kind::kFree || p.kind == Kind::kScaled; }

Rule Product(std::span<const RowPart> s) {
  for (const int i : {0, 1}) {
    const RowPart &x = s[static_cast<size_t>(i)], &y = s[static_cast<size_t>(1 - i)];
    if (y.kind == Kind::kOuter && HasDegree(x)) {
      std::vector<RowPart::Factor> factors = x.factors;
      factors.push_back({y.value, false});
      return Of(x.kind, x.amount, std::move(factors), i);
    }
    if (x.kind == Kind::kShift && IsPlain(y) && IsNumber(y))
      return Of(Kind::kShift, x.amount * y.value.const_float());
  }
  if (!HasDegree(s[0]) || !HasDegree(s[1])) return std::nullopt;
  const double amount = s[0].amount + s[1].amount;
  return Of(amount > 0 ? Kind::kScaled : Kind::kFree, amount, Both(s[0], s[1]));
}

Rule Quotient(std::span<const RowPart> s) {
  if (s[1].kind == Kind::kOuter && HasDegree(s[0])) {
    std::vector<RowPart::Factor> factors = s[0].factors;
    factors.push_back({s[1].value, true});
    return Of(s[0].kind, s[0].amount, std::move(factors), 0);
  }
  if (!IsPlain(s[1])) return std::nullopt;
  if (s[0].kind == Kind::kShift && IsNumber(s[1]))
    return Of(Kind::kShift, s[0].amount / s[1].value.const_float());
  return HasDegree(s[0]) ? Of(s[0].kind, s[0].amount, s[0].factors) : std::nullopt;
}

// ADD, or SUB with sign -1.
Rule Sum(std::span<const RowPart> s, double sign) {
  if (!s[0].factors.empty() || !s[1].factors.empty()) return std::nullopt;
  const auto is_shift = [](const RowPart& p) { return p.kind == Kind::kShift || IsPlain(p); };
  if (is_shift(s[0]) && is_shift(s[1])) return Of(Kind::kShift, s[0].amount + sign * s[1].amount);
  if (s[0].kind == Kind::kScaled && s[1].kind == Kind::kScaled && s[0].amount == s[1].amount)
    return Of(Kind::kScaled, s[0].amount);
  return std::nullopt;
}

// A choice by a condition without the maximum. 0 has every degree, minus infinity every shift.
Rule Choice(std::span<const RowPart> s) {
  if (!IsPlain(s[0])) return std::nullopt;
  for (const size_t i : {1, 2}) {
    const RowPart &x = s[i], &y = s[3 - i];
    if (x.kind == Kind::kScaled && y.value && y.value.IsConst(0))
      return Of(x.kind, x.amount, x.factors);
    if (x.kind == Kind::kShift && IsPlain(y) && y.value.Is(Op::CONST) &&
        y.value.const_float() == -INFINITY)
      return Of(x.kind, x.amount);
  }
  if (s[1].kind != s[2].kind || s[1].amount != s[2].amount || s[1].kind == Kind::kOuter ||
      !s[1].factors.empty() || !s[2].factors.empty())
    return std::nullopt;
  return Of(s[1].kind, s[1].amount);
}

}  // namespace

std::optional<RowRule> CombineRowParts(UOp u, std::span<const RowPart> srcs) {
  if (std::ranges::all_of(srcs, IsPlain)) return Of(Kind::kFree, 0);
  switch (u.op()) {
    case Op::MUL:
      return Product(srcs);
    case Op::FDIV:
      return Quotient(srcs);
    case Op::ADD:
      return Sum(srcs, 1);
    case Op::SUB:
      return Sum(srcs, -1);
    case Op::WHERE:
      return Choice(srcs);
    case Op::NEG:
      if (srcs[0].kind == Kind::kShift) return Of(Kind::kShift, -srcs[0].amount);
      return HasDegree(srcs[0]) ? Of(srcs[0].kind, srcs[0].amount, srcs[0].factors) : std::nullopt;
    case Op::CAST:
      if (!ir::IsFloat(u.dtype()) || srcs[0].kind == Kind::kOuter) return std::nullopt;
      return Of(srcs[0].kind, srcs[0].amount, srcs[0].factors);
    case Op::EXP2:
      if (srcs[0].kind != Kind::kShift || srcs[0].amount >= 0) return std::nullopt;
      return Of(Kind::kScaled, -srcs[0].amount);
    default:
      return std::nullopt;
  }
}

}  // namespace uopd::codegen
