// SPDX-License-Identifier: MIT
#include "core/ir/bounds.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {
namespace {

// Products of two 64-bit ends fit 128 bits; sums of such products are clamped here before they are
// stored again.
constexpr Int128 kHuge = Int128{1} << 100;
Int128 Clamp(Int128 v) { return std::clamp(v, -kHuge, kHuge); }
Int128 MulClamped(Int128 a, Int128 b) {
  Int128 out;
  if (__builtin_mul_overflow(a, b, &out)) return (a < 0) == (b < 0) ? kHuge : -kHuge;
  return Clamp(out);
}

Int128 FloorDiv(Int128 a, Int128 b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

template <class F>
Bounds Corners(Bounds a, Bounds b, F f) {
  const Int128 v[] = {f(a.min, b.min), f(a.min, b.max), f(a.max, b.min), f(a.max, b.max)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

Bounds Hull(Bounds a, Bounds b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

Bounds FloorModBounds(Bounds x, Bounds d) {
  if (d.IsPoint() && d.min > 0) {
    const Int128 c = d.min;
    if (FloorDiv(x.min, c) == FloorDiv(x.max, c))
      return {x.min - FloorDiv(x.min, c) * c, x.max - FloorDiv(x.max, c) * c};
    return {0, c - 1};
  }
  // The remainder has the divisor's sign; division by zero gives 0.
  return {std::min<Int128>(0, d.min + 1), std::max<Int128>(0, d.max - 1)};
}

Bounds CModBounds(Bounds x, Bounds d) {
  const Int128 m = std::max({d.max, -d.min, Int128{1}}) - 1;  // largest magnitude of a remainder
  if (d.IsPoint() && d.min > 0 && x.min >= 0) return FloorModBounds(x, d);
  return {x.min >= 0 ? 0 : std::max(-m, x.min), x.max <= 0 ? 0 : std::min(m, x.max)};
}

// Smallest 2^k - 1 that covers v >= 0.
Int128 Mask(Int128 v) {
  Int128 m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

Bounds Binary(Op op, Bounds a, Bounds b, Bounds full) {
  switch (op) {
    case Op::ADD:
      return {Clamp(a.min + b.min), Clamp(a.max + b.max)};
    case Op::SUB:
      return {Clamp(a.min - b.max), Clamp(a.max - b.min)};
    case Op::MUL:
      return Corners(a, b, MulClamped);
    case Op::MAX:
      return {std::max(a.min, b.min), std::max(a.max, b.max)};
    case Op::CDIV:
    case Op::FLOORDIV: {
      auto div = [op](Int128 x, Int128 y) { return op == Op::CDIV ? x / y : FloorDiv(x, y); };
      // Divisor intervals without zero: the corners decide. Else: |x / d| <= |x|, and x / 0 is 0.
      if (b.min > 0 || b.max < 0) return Corners(a, b, div);
      const Int128 m = std::max(a.max, -a.min);
      return {-m, m};
    }
    case Op::FLOORMOD:
      return FloorModBounds(a, b);
    case Op::CMOD:
      return CModBounds(a, b);
    case Op::AND:
      if (a.min >= 0 && b.min >= 0) return {0, std::min(a.max, b.max)};
      if (b.min >= 0) return {0, b.max};
      if (a.min >= 0) return {0, a.max};
      return full;
    case Op::OR:
    case Op::XOR:
      if (a.min >= 0 && b.min >= 0) {
        return {op == Op::OR ? std::max(a.min, b.min) : 0, Mask(std::max(a.max, b.max))};
      }
      return full;
    case Op::SHR:
      if (b.IsPoint() && b.min >= 0 && b.min < 64)
        return {a.min >> int(b.min), a.max >> int(b.min)};
      return full;
    case Op::SHL:
      if (b.IsPoint() && b.min >= 0 && b.min < 64) {
        const Int128 scale = Int128{1} << int(b.min);
        return {MulClamped(a.min, scale), MulClamped(a.max, scale)};
      }
      return full;
    default:
      return full;
  }
}

Bounds Compare(Op op, Bounds a, Bounds b) {
  const bool disjoint = a.max < b.min || b.max < a.min;
  const bool same_point = a.IsPoint() && b.IsPoint() && a.min == b.min;
  switch (op) {
    case Op::CMPLT:
      return {a.max < b.min, a.min < b.max};
    case Op::CMPNE:
      return {disjoint, !same_point};
    default:
      return {same_point, !disjoint};
  }
}

}  // namespace

Bounds ComputeBounds(UOpContext& ctx, UOp u) {
  const Dtype dtype = u.dtype();
  if (IsFloat(dtype) || dtype == Dtype::Void) return {0, 0};  // meaningless, but known: asked once
  const IntRange range = RangeOf(dtype);
  const Bounds full = {range.min, range.max};
  auto bounds_of = [&](size_t i) { return ctx.BoundsOf(u.src(i)); };
  auto comparable = [&](size_t i) { return !IsFloat(u.src(i).dtype()); };
  Bounds out = full;
  switch (u.op()) {
    case Op::CONST: {
      const Int128 v = dtype == Dtype::U64 ? Int128{static_cast<uint64_t>(u.const_int())}
                                           : Int128{u.const_int()};
      return {v, v};
    }
    case Op::DEFINE_VAR:
      out = {u.ints()[0], u.ints()[1]};
      break;
    case Op::BIND:
    case Op::AFTER:
    case Op::CONTIGUOUS:
    case Op::DETACH:
      out = bounds_of(0);
      break;
    case Op::RANGE:
    case Op::SPECIAL:
      out = {0, std::max<Int128>(0, bounds_of(0).max - 1)};
      break;
    case Op::NEG: {
      const Bounds a = bounds_of(0);
      out = {-a.max, -a.min};
      break;
    }
    case Op::CAST:
      if (comparable(0))
        out = dtype == Dtype::Bool ? Compare(Op::CMPNE, bounds_of(0), {0, 0}) : bounds_of(0);
      break;
    case Op::CMPLT:
    case Op::CMPNE:
    case Op::CMPEQ:
      if (comparable(0)) out = Compare(u.op(), bounds_of(0), bounds_of(1));
      break;
    case Op::WHERE: {
      const Bounds c = bounds_of(0);
      out = c.IsPoint() ? bounds_of(c.min != 0 ? 1 : 2) : Hull(bounds_of(1), bounds_of(2));
      break;
    }
    case Op::MULACC:
      out = Binary(Op::ADD, Binary(Op::MUL, bounds_of(0), bounds_of(1), full), bounds_of(2), full);
      break;
    case Op::STACK:
      if (u.n_src() > 0) {
        out = bounds_of(0);
        for (size_t i = 1; i < u.n_src(); ++i) out = Hull(out, bounds_of(i));
      }
      break;
    case Op::GEP:
      out = bounds_of(0);
      break;
    default:
      if (u.Is(kBinaryOps)) out = Binary(u.op(), bounds_of(0), bounds_of(1), full);
  }
  if (dtype == Dtype::Bool && u.Is(kBinaryOps) && !u.Is(kComparisonOps)) out = {0, 1};
  // A stored integer wraps; an index does not.
  if (dtype != Dtype::Index && !out.Within(full)) return full;
  return out;
}

// Iterative: sources first, on an explicit stack, so that depth is no limit.
Bounds UOpContext::BoundsOf(UOp u) {
  if (bounds_.size() < size()) bounds_.resize(size());
  if (bounds_[u.id()].known()) return bounds_[u.id()];
  std::vector<UOp> stack = {u};
  while (!stack.empty()) {
    const UOp top = stack.back();
    bool ready = true;
    for (UOp s : top.srcs()) {
      if (!bounds_[s.id()].known()) stack.push_back(s), ready = false;
    }
    if (!ready) continue;
    stack.pop_back();
    bounds_[top.id()] = ComputeBounds(*this, top);
    UOPD_ASSERT(bounds_[top.id()].known());
  }
  return bounds_[u.id()];
}

}  // namespace uopd::ir
