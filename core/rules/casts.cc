// SPDX-License-Identifier: MIT
// Casts: those that change nothing, and arithmetic on stored integers that are casts of an index,
// which moves into the index, where sums have a normal form.
#include "core/ir/build.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// A cast that loses nothing, so that casting back gives the same value.
bool Lossless(Dtype from, Dtype to) {
  if (from == to || from == Dtype::Bool) return true;
  if (ir::IsFloat(from) || ir::IsFloat(to)) {
    if (!ir::IsFloat(to)) return false;
    if (!ir::IsFloat(from))
      return to == Dtype::F64 ? ir::Bits(from) <= 32 : to == Dtype::F32 && ir::Bits(from) <= 16;
    return to == Dtype::F64 || (to == Dtype::F32 && ir::Bits(from) < 32);
  }
  const ir::IntRange a = ir::RangeOf(from), b = ir::RangeOf(to);
  return b.min <= a.min && a.max <= b.max;
}

// Every value of the integer x is one of dtype `to`.
bool Holds(UOpContext& ctx, Dtype to, UOp x) {
  const ir::IntRange range = ir::RangeOf(to);
  return ctx.BoundsOf(x).Within({range.min, range.max});
}

// The index of which u, a stored integer, is the cast; null if there is none. `exact`: the cast
// must lose nothing.
UOp Uncast(UOpContext& ctx, UOp u, bool exact) {
  if (u.Is(Op::CONST)) {
    return u.dtype() == Dtype::U64 && u.const_int() < 0 ? UOp() : ctx.Idx(u.const_int());
  }
  if (!u.Is(Op::CAST) || u.src(0).dtype() != Dtype::Index) return UOp();
  return exact && !Holds(ctx, u.dtype(), u.src(0)) ? UOp() : u.src(0);
}

// Sums and products wrap alike before and after the cast; everything else needs the values
// themselves.
UOp LiftToIndex(UOpContext& ctx, UOp u) {
  constexpr OpSet kWrapping = {Op::ADD, Op::SUB, Op::MUL, Op::NEG};
  const bool exact = !u.Is(kWrapping);
  const size_t first = u.Is(Op::WHERE) ? 1 : 0;
  bool any = false;
  ir::SymbolicDims src;
  for (size_t i = 0; i < u.n_src(); ++i) {
    const UOp s = u.src(i);
    const UOp index = i < first ? s : Uncast(ctx, s, exact);
    if (!index) return UOp();
    any |= i >= first && s.Is(Op::CAST);
    src.push_back(index);
  }
  if (!any) return UOp();
  const Dtype out = u.Is(ir::kComparisonOps) ? Dtype::Bool : Dtype::Index;
  const UOp lifted = ctx.Make(u.op(), out, src);
  if (out == Dtype::Bool) return lifted;
  if (!FitsIndex(ctx, lifted) || (exact && !Holds(ctx, u.dtype(), lifted))) return UOp();
  return ir::Cast(ctx, lifted, u.dtype());
}

}  // namespace

const RuleSet& CastRules() {
  static const RuleSet rules = Built("casts", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> p;
    constexpr Any<2> y;

    r.Add("cast_same", Node(Op::CAST, x), x,
          [x](const auto& m) { return m[x].dtype() == m.root().dtype(); });
    r.Add("bitcast_same", Node(Op::BITCAST, x), x,
          [x](const auto& m) { return m[x].dtype() == m.root().dtype(); });
    r.Add("bitcast_bitcast", Node(Op::BITCAST, Node(Op::BITCAST, x)),
          [x](const auto& m) -> UOp { return ir::Bitcast(m.ctx, m[x], m.root().dtype()); });
    r.Add("cast_cast", Node(Op::CAST, Node(Op::CAST, x)), [x](const auto& m) -> UOp {
      const Dtype between = m.root().src(0).dtype(), to = m.root().dtype();
      // A float that is too large for an integer saturates, an integer wraps.
      const bool saturates = ir::IsFloat(between) && !ir::IsFloat(to) &&
                             !ir::IsFloat(m[x].dtype()) && to != Dtype::Bool &&
                             !Lossless(m[x].dtype(), to);
      if (saturates) return UOp();
      const bool same_value = Lossless(m[x].dtype(), between) ||
                              // The narrower integer stays in front of a float: it converts faster.
                              (!ir::IsFloat(m[x].dtype()) && !ir::IsFloat(between) &&
                               !ir::IsFloat(to) && Holds(m.ctx, between, m[x]));
      // An integer that is cut twice is cut once if the second cut is the deeper one.
      const bool cut = ir::IsInt(m[x].dtype()) && ir::IsInt(between) && ir::IsInt(to) &&
                       ir::Bits(to) <= ir::Bits(between);
      return same_value || cut ? ir::Cast(m.ctx, m[x], to) : UOp();
    });
    // A condition as a number, and back.
    r.Add("bool_ne", Node(Op::CAST, x.Is(kBools)) != 0, x);
    r.Add("bool_eq", Node(Op::CAST, x.Is(kBools)) == 1, x);
    r.Add("cast_where", Node(Op::CAST, Where(p, x, y)), [p, x, y](const auto& m) -> UOp {
      if (!m[x].Is(Op::CONST) || !m[y].Is(Op::CONST)) return UOp();
      const Dtype d = m.root().dtype();
      return ir::Where(m.ctx, m[p], ir::Cast(m.ctx, m[x], d), ir::Cast(m.ctx, m[y], d));
    });
    r.Add("lift",
          Group(OpSet{Op::ADD, Op::SUB, Op::MUL, Op::NEG, Op::MAX, Op::FLOORDIV, Op::FLOORMOD},
                x.Is(kStoredInts), Rest()),
          [](const auto& m) -> UOp { return LiftToIndex(m.ctx, m.root()); });
    r.Add("lift_where", Where(p, x.Is(kStoredInts), y),
          [](const auto& m) -> UOp { return LiftToIndex(m.ctx, m.root()); });
    r.Add("lift_compare", Group(ir::kComparisonOps, x.Is(kStoredInts), y),
          [](const auto& m) -> UOp { return LiftToIndex(m.ctx, m.root()); });
  });
  return rules;
}

}  // namespace uopd::rules
