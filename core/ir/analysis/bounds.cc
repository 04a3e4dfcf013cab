// SPDX-License-Identifier: MIT
#include "core/ir/analysis/bounds.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
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
  if (x.min >= 0 && d.min >= 0)
    return {x.max < d.min ? x.min : 0, std::min(x.max, std::max<Int128>(0, d.max - 1))};
  // The remainder has the divisor's sign; division by zero gives 0.
  return {std::min<Int128>(0, d.min + 1), std::max<Int128>(0, d.max - 1)};
}

Bounds CModBounds(Bounds x, Bounds d) {
  const Int128 m = std::max({d.max, -d.min, Int128{1}}) - 1;  // largest magnitude of a remainder
  if (d.min > 0 && x.min >= 0) return FloorModBounds(x, d);
  // A dividend smaller than every divisor is its own remainder.
  if ((d.min > 0 && std::max(x.max, -x.min) < d.min) ||
      (d.max < 0 && std::max(x.max, -x.min) < -d.max))
    return x;
  return {x.min >= 0 ? 0 : std::max(-m, x.min), x.max <= 0 ? 0 : std::min(m, x.max)};
}

// Smallest 2^k - 1 that covers v >= 0.
Int128 Mask(Int128 v) {
  Int128 m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

// Bitwise ops of numbers of n bits in two's complement have n bits.
Bounds SameWidth(Bounds a, Bounds b) {
  const Int128 m = Mask(std::max({a.max, b.max, -1 - a.min, -1 - b.min, Int128{0}}));
  return {-1 - m, m};
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
      return SameWidth(a, b);
    case Op::OR:
    case Op::XOR:
      if (op == Op::XOR && b.IsPoint() && b.min == -1) return {-1 - a.max, -1 - a.min};  // ~a
      if (a.IsPoint() && b.IsPoint() && a.min >= 0 && b.min >= 0) {
        const Int128 exact = op == Op::OR ? a.min | b.min : a.min ^ b.min;
        return {exact, exact};
      }
      if (a.min >= 0 && b.min >= 0) {
        return {op == Op::OR ? std::max(a.min, b.min) : 0, Mask(std::max(a.max, b.max))};
      }
      return SameWidth(a, b);
    case Op::SHR:
      if (b.min >= 0 && b.max < 64)
        return Corners(a, b, [](Int128 x, Int128 n) { return x >> int(n); });
      // A shift by all bits leaves 0, or -1 for a negative value.
      if (a.min >= 0) return {0, a.max};
      return {std::min<Int128>(a.min, -1), std::max<Int128>(a.max, 0)};
    case Op::SHL: {
      // An index is exact here too: one that may be shifted too far is one that may be too large.
      const Int128 lo = std::max<Int128>(b.min, 0), hi = std::min<Int128>(b.max, 63);
      if (lo > hi) return {0, 0};
      const Bounds out = Corners(a, {lo, hi}, [](Int128 x, Int128 n) {
        return MulClamped(x, Int128{1} << static_cast<int>(n));
      });
      return b.min < 0 || b.max > 63 ? Hull(out, {0, 0}) : out;
    }
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

// True for values that the rules of index arithmetic do not rewrite. Facts about such a value stay
// valid in the rewritten expression.
bool IsAtom(UOp u) {
  return u.Is(OpSet{Op::RANGE, Op::DEFINE_VAR, Op::SPECIAL, Op::LOAD}) ||
         (u.Is(Op::CAST) && u.src(0).Is(Op::LOAD));
}

// Bounds of `atom` where `condition` is true (`holds`) or false: its own bounds, narrowed by every
// conjunct that compares it with a constant. Visits a few conjuncts only. Empty if the branch is
// never taken.
Bounds AtomWhere(UOpContext& ctx, UOp atom, UOp condition, bool holds) {
  Bounds out = ctx.BoundsOf(atom);
  constexpr size_t kMost = 8;
  std::pair<UOp, bool> stack[kMost + 2] = {{condition, holds}};
  for (size_t n = 1, looked = 0; n > 0 && looked < kMost; ++looked) {
    const auto [c, is_true] = stack[--n];
    if (c.Is(is_true ? Op::AND : Op::OR)) {
      if (n + 2 <= kMost) {
        stack[n++] = {c.src(0), is_true};
        stack[n++] = {c.src(1), is_true};
      }
    } else if (c.Is(Op::CMPNE) && c.src(1).IsConstInt(1) && c.src(0).dtype() == Dtype::Bool) {
      stack[n++] = {c.src(0), !is_true};
    } else if (c.Is(kComparisonOps) && c.src(0) == atom && c.src(1).Is(Op::CONST)) {
      const Int128 k = ctx.BoundsOf(c.src(1)).min;
      if (c.Is(Op::CMPLT)) {
        if (is_true)
          out.max = std::min(out.max, k - 1);
        else
          out.min = std::max(out.min, k);
      } else if (c.Is(is_true ? Op::CMPEQ : Op::CMPNE)) {
        out.min = std::max(out.min, k);
        out.max = std::min(out.max, k);
      }
    } else if (c.Is(Op::CMPLT) && c.src(1) == atom && c.src(0).Is(Op::CONST)) {
      const Int128 k = ctx.BoundsOf(c.src(0)).min;
      if (is_true)
        out.min = std::max(out.min, k + 1);
      else
        out.max = std::min(out.max, k);
    }
  }
  return out;
}

// As AtomWhere, for an atom or an atom plus a constant. Other values have the bounds of BoundsOf.
Bounds Within(UOpContext& ctx, UOp value, UOp condition, bool holds) {
  if (IsAtom(value)) return AtomWhere(ctx, value, condition, holds);
  if (value.Is(Op::ADD) && value.dtype() == Dtype::Index && value.src(1).Is(Op::CONST) &&
      IsAtom(value.src(0))) {
    const Bounds b = AtomWhere(ctx, value.src(0), condition, holds);
    const Int128 k = value.src(1).const_int();
    return {b.min + k, b.max + k};
  }
  return ctx.BoundsOf(value);
}

// True if the bounds of u follow from the node alone. They are not memoised.
bool IsEvident(UOp u) {
  if (u.Is(Op::CONST) || IsFloat(u.dtype()) || u.dtype() == Dtype::Void) return true;
  return u.Is(Op::RANGE) && u.dtype() == Dtype::Index && u.src(0).Is(Op::CONST);
}

Bounds EvidentBounds(UOp u) {
  if (IsFloat(u.dtype()) || u.dtype() == Dtype::Void) return {0, 0};  // meaningless
  if (u.Is(Op::RANGE)) return {0, std::max<int64_t>(1, u.src(0).const_int()) - 1};
  if (u.dtype() == Dtype::U64) {
    const auto v = static_cast<uint64_t>(u.const_int());
    return {v, v};
  }
  return {u.const_int(), u.const_int()};
}

// An interval whose ends fit into 64 bits. Nearly all do.
struct Narrow {
  int64_t min, max;
};
bool Fits(Bounds b, Narrow& out) {
  out = {static_cast<int64_t>(b.min), static_cast<int64_t>(b.max)};
  return out.min == b.min && out.max == b.max;
}

// The bounds of an operand of signed or index dtype.
bool FitsOf(UOpContext& ctx, UOp u, Narrow& out) {
  if (!u.Is(Op::CONST)) return Fits(ctx.BoundsOf(u), out);
  out = {u.const_int(), u.const_int()};
  return true;
}

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0); }  // REQUIRES: b > 0

// As ComputeBounds, with 64-bit arithmetic, for the most frequent ops of index arithmetic. False
// for another op, or if a number does not fit into 64 bits.
bool NarrowBounds(UOpContext& ctx, UOp u, Bounds& out) {
  constexpr OpSet kOps = {Op::ADD,      Op::SUB,   Op::MUL,   Op::MAX,  Op::FLOORDIV,
                          Op::FLOORMOD, Op::CMPLT, Op::CMPNE, Op::CMPEQ};
  const Dtype dtype = u.dtype(), operand = u.Is(kOps) ? u.src(0).dtype() : Dtype::Void;
  if (operand != Dtype::Index && operand != Dtype::I32 && operand != Dtype::I64) return false;
  Narrow a, b, r;
  if (!FitsOf(ctx, u.src(0), a) || !FitsOf(ctx, u.src(1), b)) return false;
  const bool b_is_point = b.min == b.max;
  switch (u.op()) {
    case Op::ADD:
      if (__builtin_add_overflow(a.min, b.min, &r.min) ||
          __builtin_add_overflow(a.max, b.max, &r.max))
        return false;
      break;
    case Op::SUB:
      if (__builtin_sub_overflow(a.min, b.max, &r.min) ||
          __builtin_sub_overflow(a.max, b.min, &r.max))
        return false;
      break;
    case Op::MUL:
      if (b_is_point || (a.min >= 0 && b.min >= 0)) {
        if (__builtin_mul_overflow(a.min, b.min, &r.min) ||
            __builtin_mul_overflow(a.max, b.max, &r.max))
          return false;
        if (b.min < 0) std::swap(r.min, r.max);
        break;
      }
      return false;
    case Op::MAX:
      r = {std::max(a.min, b.min), std::max(a.max, b.max)};
      break;
    case Op::FLOORDIV:
      if (!b_is_point || b.min <= 0) return false;
      r = {FloorDiv(a.min, b.min), FloorDiv(a.max, b.min)};
      break;
    case Op::FLOORMOD: {
      if (!b_is_point || b.min <= 0) return false;
      r = {0, b.min - 1};
      const int64_t period = FloorDiv(a.min, b.min);
      if (period != FloorDiv(a.max, b.min)) break;
      int64_t first;
      if (__builtin_mul_overflow(period, b.min, &first)) return false;
      r = {a.min - first, a.max - first};
      break;
    }
    case Op::CMPLT:
      out = {a.max < b.min, a.min < b.max};
      return true;
    default: {
      const bool disjoint = a.max < b.min || b.max < a.min;
      const bool same_point = b_is_point && a.min == b.min && a.max == b.min;
      out = u.Is(Op::CMPNE) ? Bounds{disjoint, !same_point} : Bounds{same_point, !disjoint};
      return true;
    }
  }
  if (dtype == Dtype::I32 && (r.min < INT32_MIN || r.max > INT32_MAX))
    r = {INT32_MIN, INT32_MAX};  // it wraps
  out = {r.min, r.max};
  return true;
}

}  // namespace

Bounds ComputeBounds(UOpContext& ctx, UOp u) {
  const Dtype dtype = u.dtype();
  if (Bounds narrow; NarrowBounds(ctx, u, narrow)) return narrow;
  if (dtype == Dtype::Bool && u.Is(kBinaryOps) && !u.Is(kComparisonOps)) return {0, 1};
  const IntRange range = RangeOf(dtype);
  const Bounds full = {range.min, range.max};
  auto bounds_of = [&](size_t i) { return ctx.BoundsOf(u.src(i)); };
  auto comparable = [&](size_t i) { return !IsFloat(u.src(i).dtype()); };
  Bounds out = full;
  switch (u.op()) {
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
      if (c.IsPoint()) {
        out = bounds_of(c.min != 0 ? 1 : 2);
        break;
      }
      const Bounds a = Within(ctx, u.src(1), u.src(0), true),
                   b = Within(ctx, u.src(2), u.src(0), false);
      out = !a.known() ? bounds_of(2) : !b.known() ? bounds_of(1) : Hull(a, b);
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
  // A stored integer wraps; an index does not.
  if (dtype != Dtype::Index && !out.Within(full)) return full;
  return out;
}

bool UOpContext::KnowsBounds(UOp u) const { return IsEvident(u) || bounds_.Has(u.id()); }

Bounds UOpContext::BoundsOf(UOp u) {
  if (IsEvident(u)) return EvidentBounds(u);
  if (bounds_.Has(u.id())) return bounds_.Get(u.id());
  auto compute = [this](UOp v) {
    const Bounds b = ComputeBounds(*this, v);
    UOPD_ASSERT(b.known());
    bounds_.Set(v.id(), b);
    return b;
  };
  // A function of its own, so that a lookup of known bounds needs no stack frame for it. Iterative:
  // sources first, on an explicit stack, so that graphs may have any depth.
  auto find = [&]() __attribute__((noinline)) {
    // The bounds of the sources are nearly always known: rules asked for them before they made u.
    bool ready = true;
    for (UOp s : u.srcs()) ready &= KnowsBounds(s);
    if (ready) return compute(u);
    absl::InlinedVector<UOp, 16> stack = {u};
    while (!stack.empty()) {
      const UOp top = stack.back();
      bool ready = true;
      for (UOp s : top.srcs()) {
        if (!KnowsBounds(s)) {
          stack.push_back(s);
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      if (!bounds_.Has(top.id())) compute(top);
    }
    return bounds_.Get(u.id());
  };
  return find();
}

}  // namespace uopd::ir
