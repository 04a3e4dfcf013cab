// SPDX-License-Identifier: MIT
#include "core/rules/collapse.h"

#include <algorithm>
#include <cmath>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/compare.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using ir::Dtype;
using ir::Int128;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

// The depth to which an expression is taken apart.
constexpr int kMaxDepth = 16;

// The float dtype holds every integer up to this one exactly.
Int128 ExactUpTo(Dtype d) {
  switch (d) {
    case Dtype::F64:
      return Int128{1} << 53;
    case Dtype::F32:
      return 1 << 24;
    case Dtype::TF32:
    case Dtype::F16:
      return 1 << 11;
    case Dtype::BF16:
      return 1 << 8;
    case Dtype::F8E4M3:
      return 1 << 4;
    default:
      return 1 << 3;
  }
}

// What one part of a condition says about the range r.
struct Restriction {
  enum Kind { kBelow, kFrom, kEqual } kind;
  UOp at;  // r < at, r >= at, r == at
};

class Collapser {
 public:
  Collapser(UOpContext& ctx, UOp range) : ctx_(ctx), range_(range), size_(range.src(0)) {}

  UOp Over(UOp v, int depth = 0) {
    if (!ir::Reaches(ctx_, v, range_)) return Times(v, size_);
    if (depth > kMaxDepth) return UOp();
    const bool exact = !ir::IsFloat(v.dtype()) && v.dtype() != Dtype::Bool;
    switch (v.op()) {
      case Op::CAST:
        if (v.src(0).dtype() == Dtype::Bool) return Masked(v, depth);
        if (v.src(0).dtype() == Dtype::Index && exact) {  // casting wraps; so does the sum
          const UOp sum = Over(v.src(0), depth + 1);
          return sum && FitsIndex(ctx_, sum) ? ir::Cast(ctx_, sum, v.dtype()) : UOp();
        }
        return UOp();
      case Op::WHERE: {
        if (const UOp out = Masked(v, depth)) return out;
        if (!exact || v.src(1).IsConst(0) || v.src(2).IsConst(0)) return UOp();
        const UOp zero = ctx_.Const(v.dtype(), 0);
        return Both(Op::ADD, ir::Where(ctx_, v.src(0), v.src(1), zero),
                    ir::Where(ctx_, v.src(0), zero, v.src(2)), depth);
      }
      case Op::ADD:
      case Op::SUB:
        return exact ? Both(v.op(), v.src(0), v.src(1), depth) : UOp();
      case Op::NEG: {
        const UOp sum = exact ? Over(v.src(0), depth + 1) : UOp();
        return sum ? ir::Alu(ctx_, Op::NEG, {sum}) : UOp();
      }
      case Op::MUL:
        for (size_t i = 0; i < 2 && exact; ++i) {
          if (ir::Reaches(ctx_, v.src(i), range_)) continue;
          const UOp sum = Over(v.src(1 - i), depth + 1);
          return Checked(Op::MUL, sum, v.src(i));
        }
        return v.dtype() == Dtype::Bool || exact ? Masked(v, depth) : UOp();
      default:
        return v.dtype() == Dtype::Bool ? Masked(v, depth) : UOp();
    }
  }

 private:
  UOp Checked(Op op, UOp maybe_a, UOp maybe_b) { return CheckedAlu(ctx_, op, maybe_a, maybe_b); }
  // op(sum of a, sum of b).
  UOp Both(Op op, UOp a, UOp b, int depth) {
    const UOp x = Over(a, depth + 1);
    return x ? Checked(op, x, Over(b, depth + 1)) : UOp();
  }
  UOp AndTo(UOp maybe_all, UOp c) { return maybe_all ? ir::And(ctx_, maybe_all, c) : c; }
  UOp Min(UOp a, UOp b) {  // null if it does not fit 64 bits
    const UOp minus = ctx_.Idx(-1);
    return Checked(Op::MUL,
                   Checked(Op::MAX, Checked(Op::MUL, a, minus), Checked(Op::MUL, b, minus)), minus);
  }

  // The sum of `count` copies of v. v does not depend on the range; count is an index and not
  // negative.
  UOp Times(UOp v, UOp count) {
    const Dtype d = v.dtype();
    const ir::Bounds n = ctx_.BoundsOf(count);
    if (n.min < 0) return UOp();
    if (n.IsPoint() && n.min == 0) return ctx_.Const(d, 0);
    const UOp some = ir::Lt(ctx_, ctx_.Idx(0), count);
    if (d == Dtype::Bool) return ir::And(ctx_, v, some);
    if (!ir::IsFloat(d)) {
      if (n.IsPoint() && n.min == 1) return v;
      return d == Dtype::Index ? Checked(Op::MUL, v, count)
                               : ir::Mul(ctx_, v, ir::Cast(ctx_, count, d));
    }
    if (n.max > ExactUpTo(d)) return UOp();
    const UOp zero = ctx_.Const(d, 0);
    const UOp number = ir::Cast(ctx_, count, d);
    if (v.Is(Op::CONST) && v.const_float() > 0 && std::isfinite(v.const_float()))
      return v.IsConst(1) ? number : ir::Mul(ctx_, v, number);
    // Add +0: the sum starts at +0, so a sum of -0 is +0.
    const UOp sum = ir::Add(ctx_, n.IsPoint() && n.min == 1 ? v : ir::Mul(ctx_, v, number), zero);
    return n.min > 0 ? sum : ir::Where(ctx_, some, sum, zero);
  }

  // v as a product: v is `value` if every part (a condition, and whether it must hold) is
  // satisfied, else 0.
  struct Mask {
    absl::InlinedVector<std::pair<UOp, bool>, 8> parts;
    UOp value;
  };
  Mask Peel(UOp v) {
    Mask m;
    absl::InlinedVector<std::pair<UOp, bool>, 8> stack;
    for (bool more = true; more;) {
      more = false;
      if (v.Is(Op::WHERE) && v.src(2).IsConst(0)) {
        stack.emplace_back(v.src(0), true);
        v = v.src(1);
        more = true;
      } else if (v.Is(Op::WHERE) && v.src(1).IsConst(0)) {
        stack.emplace_back(v.src(0), false);
        v = v.src(2);
        more = true;
      } else if (v.Is(Op::CAST) && v.src(0).dtype() == Dtype::Bool) {
        stack.emplace_back(v.src(0), true);
        v = ctx_.Const(v.dtype(), 1);
      } else if (v.dtype() == Dtype::Bool && !v.Is(Op::CONST)) {
        stack.emplace_back(v, true);
        v = ctx_.Bool(true);
      } else if (v.Is(Op::MUL) && !ir::IsFloat(v.dtype())) {
        for (size_t i = 0; i < 2 && !more; ++i) {
          const UOp f = v.src(i);
          if (!f.Is(Op::CAST) || f.src(0).dtype() != Dtype::Bool) continue;
          stack.emplace_back(f.src(0), true);
          v = v.src(1 - i);
          more = true;
        }
      }
    }
    m.value = v;
    while (!stack.empty()) {
      ForEachPart(stack.back().first, stack.back().second, [&](UOp c, bool holds) {
        m.parts.emplace_back(c, holds);
        return true;
      });
      stack.pop_back();
    }
    return m;
  }

  // A comparison that depends on r, solved for r; nullopt if it is not linear in r, or if another
  // term depends on r.
  std::optional<Restriction> Solve(UOp c, bool holds) {
    if (!c.Is(ir::kComparisonOps)) return std::nullopt;
    UOp side[2] = {c.src(0), c.src(1)};
    for (UOp& s : side) {
      s = AsIndex(s);
      if (!s) return std::nullopt;
    }
    auto difference = ToSum(ctx_, ir::Sub(ctx_, side[0], side[1]));  // f * r + rest
    if (!difference) return std::nullopt;
    int64_t f = 0;
    Sum rest;
    rest.constant = difference->constant;
    for (const Term& t : difference->terms) {
      if (t.value == range_)
        f = t.factor;
      else if (ir::Reaches(ctx_, t.value, range_))
        return std::nullopt;
      else
        rest.terms.push_back(t);
    }
    if (f == 0) return std::nullopt;
    if (f > 0) {  // move the rest to the other side: |f| * r compared with rest
      for (Term& t : rest.terms) t.factor = -t.factor;
      rest.constant = -rest.constant;
    }
    const int64_t magnitude = std::abs(f);
    const bool less = c.Is(Op::CMPLT);
    if (!less) {
      if (!c.Is(holds ? Op::CMPEQ : Op::CMPNE) || magnitude != 1) return std::nullopt;
      const UOp at = FromSum(ctx_, rest);
      return at ? std::optional(Restriction{Restriction::kEqual, at}) : std::nullopt;
    }
    // If c holds / fails: |f| * r < rest / rest <= |f| * r for f > 0, and
    //                     rest < |f| * r / |f| * r <= rest for f < 0.
    if (f > 0) rest.constant += magnitude - 1;  // rounded up
    UOp at = FromSum(ctx_, rest);
    if (at && magnitude != 1) at = ir::Alu(ctx_, Op::FLOORDIV, {at, ctx_.Idx(magnitude)});
    if (f < 0) at = Checked(Op::ADD, at, ctx_.Idx(1));
    if (!at) return std::nullopt;
    return Restriction{(f > 0) == holds ? Restriction::kBelow : Restriction::kFrom, at};
  }

  // The value of an integer as an index expression; null if it might not fit an index.
  UOp AsIndex(UOp u) {
    if (u.dtype() == Dtype::Index) return u;
    if (!ir::IsInt(u.dtype()) || u.dtype() == Dtype::U64) return UOp();
    if (u.Is(Op::CONST)) return ctx_.Idx(u.const_int());
    if (u.Is(Op::CAST) && u.src(0).dtype() == Dtype::Index) {
      const ir::IntRange range = ir::RangeOf(u.dtype());
      return ctx_.BoundsOf(u.src(0)).Within({range.min, range.max}) ? u.src(0) : UOp();
    }
    return ir::Cast(ctx_, u, Dtype::Index);
  }

  // The sum of a masked value: the forms with [lo <= r < hi] and [r == e] of collapse.h.
  UOp Masked(UOp v, int depth) {
    const Mask mask = Peel(v);
    UOp always, e;  // always: the parts without r; e: from a part r == e
    UOp lo = ctx_.Idx(0), hi = size_;
    absl::InlinedVector<std::pair<UOp, bool>, 4> others;  // the other parts that depend on r
    for (const auto& [c, holds] : mask.parts) {
      if (!ir::Reaches(ctx_, c, range_)) {
        always = AndTo(always, holds ? c : ir::Not(ctx_, c));
        continue;
      }
      const auto r = Solve(c, holds);
      if (r && r->kind == Restriction::kEqual && !e) {
        e = r->at;
        continue;
      }
      others.emplace_back(c, holds);
      if (!r || r->kind == Restriction::kEqual) {
        lo = hi = UOp();
      } else if (r->kind == Restriction::kBelow) {
        hi = hi ? Min(hi, r->at) : hi;
      } else {
        lo = Checked(Op::MAX, lo, r->at);
      }
    }
    UOp out;
    if (e) {
      out = Pick(mask.value, e, others);
    } else {
      const UOp span = lo && hi ? Checked(Op::SUB, hi, lo) : UOp();
      const UOp count = Checked(Op::MAX, span, ctx_.Idx(0));
      if (!count) return UOp();
      if (!ir::Reaches(ctx_, mask.value, range_))
        out = Times(mask.value, count);
      else if (others.empty() && always)  // the condition moves out of the sum
        out = Over(mask.value, depth + 1);
    }
    if (!out || !always) return out;
    return ir::Where(ctx_, always, out, ctx_.Const(out.dtype(), 0));
  }

  // The value at r == e, if e is in the range and the other parts hold there; else 0.
  UOp Pick(UOp value, UOp e, std::span<const std::pair<UOp, bool>> others) {
    if (ClosesRange(value)) return UOp();
    for (const auto& [c, holds] : others) {
      if (ClosesRange(c)) return UOp();
    }
    const ir::Bounds b = ctx_.BoundsOf(e);
    UOp condition;
    if (b.min < 0) condition = AndTo(condition, ir::Not(ctx_, ir::Lt(ctx_, e, ctx_.Idx(0))));
    if (b.max >= ctx_.BoundsOf(size_).min) condition = AndTo(condition, ir::Lt(ctx_, e, size_));
    // Outside of the range use 0 instead of e, so every load stays inside its buffer.
    UOp at = condition ? ir::Where(ctx_, condition, e, ctx_.Idx(0)) : e;
    // If BoundsOf cannot see that from the condition, clamp e explicitly.
    if (!ctx_.BoundsOf(at).Within(ctx_.BoundsOf(range_))) {
      at = Checked(Op::MAX, Min(e, ctx_.Int(Dtype::Index, ctx_.BoundsOf(range_).max)), ctx_.Idx(0));
      if (!at) return UOp();
    }
    ir::Substitution map;
    map[range_.id()] = at;
    for (const auto& [c, holds] : others) {
      const UOp here = ir::Substitute(ctx_, c, map);
      condition = AndTo(condition, holds ? here : ir::Not(ctx_, here));
    }
    UOp out = ir::Substitute(ctx_, value, map);
    const UOp zero = ctx_.Const(out.dtype(), 0);
    const bool minus_zero =
        ir::IsFloat(out.dtype()) && !(out.Is(Op::CONST) && !std::signbit(out.const_float()));
    if (minus_zero) out = ir::Add(ctx_, out, zero);  // turns -0 into +0
    return condition ? ir::Where(ctx_, condition, out, zero) : out;
  }

  // Whether a node inside v closes the same range.
  bool ClosesRange(UOp v) {
    for (UOp u : ir::Toposort(ctx_, v)) {
      const auto closed = u.closed();
      if (std::find(closed.begin(), closed.end(), range_) != closed.end()) return true;
    }
    return false;
  }

  UOpContext& ctx_;
  const UOp range_, size_;
};

}  // namespace

UOp SumOver(UOpContext& ctx, UOp value, UOp range) { return Collapser(ctx, range).Over(value); }

}  // namespace uopd::rules
