// SPDX-License-Identifier: MIT
#include "core/codegen/attention/online/masked_keys.h"

#include <cmath>
#include <optional>

#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

// scale * place + rest
struct Affine {
  int64_t scale = 0;
  UOp rest;  // of dtype index
};

class Masks {
 public:
  explicit Masks(ir::UOpContext& ctx) : ctx_(ctx) {}

  // From this place on u is -infinity, where u depends on the place along the row `range`; null:
  // unknown.
  UOp InfiniteFrom(UOp u, UOp range) {
    switch (u.op()) {
      case Op::LOAD:
        return IsRowLoad(u, range) ? InfiniteFrom(Row(u).src(0), Row(u).closed()[0]) : UOp();
      case Op::WHERE:
        for (const size_t i : {1, 2}) {
          if (!IsInfinite(u.src(i))) continue;
          const UOp mine = From(u.src(0), range, i == 1), other = InfiniteFrom(u.src(3 - i), range);
          return mine && other ? Least(mine, other) : mine ? mine : other;
        }
        return UOp();
      case Op::CAST:
        return ir::IsFloat(u.dtype()) ? InfiniteFrom(u.src(0), range) : UOp();
      case Op::SUB:
        return InfiniteFrom(u.src(0), range);
      case Op::ADD:
      case Op::MUL:
        for (const size_t i : {0, 1}) {
          if (u.Is(Op::MUL) && !(u.src(1 - i).Is(Op::CONST) && u.src(1 - i).const_float() > 0))
            continue;
          if (const UOp from = InfiniteFrom(u.src(i), range)) return from;
        }
        return UOp();
      case Op::FDIV:
        if (!u.src(1).Is(Op::CONST) || !(u.src(1).const_float() > 0)) return UOp();
        return InfiniteFrom(u.src(0), range);
      default:
        return UOp();
    }
  }

  // The same of 0.
  UOp ZeroFrom(UOp u, UOp range) {
    switch (u.op()) {
      case Op::LOAD:
        return IsRowLoad(u, range) ? ZeroFrom(Row(u).src(0), Row(u).closed()[0]) : UOp();
      case Op::EXP2:
        return InfiniteFrom(u.src(0), range);
      case Op::CAST:
      case Op::NEG:
      case Op::FDIV:
        return ir::IsFloat(u.dtype()) ? ZeroFrom(u.src(0), range) : UOp();
      case Op::MUL: {
        const UOp from = ZeroFrom(u.src(0), range);
        return from ? from : ZeroFrom(u.src(1), range);
      }
      default:
        return UOp();
    }
  }

 private:
  static bool IsInfinite(UOp u) { return u.Is(Op::CONST) && u.const_float() == -INFINITY; }
  static UOp Row(UOp load) { return load.src(0).src(0); }
  static bool IsRowLoad(UOp u, UOp range) {
    const UOp stage = Row(u);
    return stage.Is(Op::STAGE) && u.src(0).n_src() == 2 && u.src(0).src(1) == range &&
           stage.closed().size() == 1 && stage.src(1) == stage.closed()[0] &&
           stage.closed()[0].src(0) == range.src(0);
  }
  UOp Least(UOp a, UOp b) {
    if (a == b) return a;
    const auto negated = [&](UOp u) { return IndexProduct(ctx_, u, ctx_.Idx(-1)); };
    return negated(ir::Alu(ctx_, Op::MAX, {negated(a), negated(b)}));
  }

  // From this place on the condition is `wanted`.
  UOp From(UOp condition, UOp range, bool wanted) {
    if (condition.Is(Op::CMPNE) && condition.src(1).IsConstInt(1) &&
        condition.src(1).dtype() == Dtype::Bool)
      return From(condition.src(0), range, !wanted);
    if (condition.Is({Op::AND, Op::OR}) && condition.dtype() == Dtype::Bool) {
      // One of them is enough to make a false AND, or a true OR.
      if (wanted == condition.Is(Op::AND)) return UOp();
      const UOp a = From(condition.src(0), range, wanted),
                b = From(condition.src(1), range, wanted);
      return a && b ? Least(a, b) : a ? a : b;
    }
    if (!condition.Is(Op::CMPLT)) return UOp();
    const auto a = AffineOf(condition.src(0), range), b = AffineOf(condition.src(1), range);
    if (!a || !b) return UOp();
    // The condition is scale * place + rest < 0.
    const int64_t scale = a->scale - b->scale;
    const UOp rest = IndexSum(ctx_, a->rest, IndexProduct(ctx_, b->rest, ctx_.Idx(-1)));
    if (wanted && scale == -1) return IndexSum(ctx_, rest, ctx_.Idx(1));
    if (!wanted && scale == 1) return IndexProduct(ctx_, rest, ctx_.Idx(-1));
    return UOp();
  }

  // Integers; nothing where the value might wrap in its dtype, or is none of places and constants.
  std::optional<Affine> AffineOf(UOp u, UOp range) {
    if (u == range) return Affine{1, ctx_.Idx(0)};
    if (u.Is(Op::RANGE)) return Affine{0, u};
    if (u.Is(Op::CONST)) {
      const ir::Int128 value = ctx_.BoundsOf(u).max;
      if (ir::IsFloat(u.dtype()) || value > kMost || value < -kMost) return std::nullopt;
      return Affine{0, ctx_.Idx(static_cast<int64_t>(value))};
    }
    if (!u.Is({Op::CAST, Op::ADD, Op::SUB, Op::MUL, Op::DEFINE_VAR}) || ir::IsFloat(u.dtype()))
      return std::nullopt;
    const ir::Bounds bounds = ctx_.BoundsOf(u);
    if (bounds.min < -kMost || bounds.max > kMost) return std::nullopt;
    if (u.Is(Op::DEFINE_VAR))
      return u.dtype() == Dtype::Index ? std::optional(Affine{0, u}) : std::nullopt;
    const auto a = AffineOf(u.src(0), range);
    if (u.Is(Op::CAST) || !a) return a;
    const auto b = AffineOf(u.src(1), range);
    if (!b) return std::nullopt;
    const auto times = [&](const Affine& x, int64_t by) {
      return Affine{x.scale * by, IndexProduct(ctx_, x.rest, ctx_.Idx(by))};
    };
    if (u.Is(Op::MUL)) {
      if (b->scale == 0 && b->rest.Is(Op::CONST)) return times(*a, b->rest.const_int());
      if (a->scale == 0 && a->rest.Is(Op::CONST)) return times(*b, a->rest.const_int());
      return std::nullopt;
    }
    const Affine y = times(*b, u.Is(Op::SUB) ? -1 : 1);
    return Affine{a->scale + y.scale, IndexSum(ctx_, a->rest, y.rest)};
  }

  static constexpr int64_t kMost = int64_t{1} << 30;  // places
  ir::UOpContext& ctx_;
};

}  // namespace

UOp MaybeMaskedFrom(ir::UOpContext& ctx, UOp maximum, std::span<const UOp> sums) {
  Masks masks(ctx);
  const UOp out = masks.InfiniteFrom(maximum.src(0), maximum.closed()[0]);
  if (!out) return UOp();
  for (UOp sum : sums) {
    if (masks.ZeroFrom(sum.src(0), sum.closed()[0]) != out) return UOp();
  }
  return out;
}

}  // namespace uopd::codegen
