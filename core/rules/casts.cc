// SPDX-License-Identifier: MIT
// Rules for casts. Casts that change nothing disappear. Arithmetic on stored integers that are
// casts of an index moves into the index, where sums have a normal form.
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// Whether a cast keeps every value, so that casting back gives the original value.
bool Lossless(Dtype from, Dtype to) {
  if (from == to || from == Dtype::Bool) return true;
  if (ir::IsFloat(from) || ir::IsFloat(to)) {
    if (!ir::IsFloat(to)) return false;
    if (!ir::IsFloat(from))
      return to == Dtype::F64 ? ir::Bits(from) <= 32 : to == Dtype::F32 && ir::Bits(from) <= 16;
    if (from == Dtype::TF32) return to == Dtype::F32 || to == Dtype::F64;
    return to == Dtype::F64 || ((to == Dtype::F32 || to == Dtype::TF32) && ir::Bits(from) < 32);
  }
  const ir::IntRange a = ir::RangeOf(from), b = ir::RangeOf(to);
  return b.min <= a.min && a.max <= b.max;
}

// Whether dtype `to` holds every value of the integer x.
bool Holds(UOpContext& ctx, Dtype to, UOp x) {
  const ir::IntRange range = ir::RangeOf(to);
  return ctx.BoundsOf(x).Within({range.min, range.max});
}

// The index expression that u, a stored integer, is a cast of; null if there is none. With `exact`
// the cast must not wrap.
UOp Uncast(UOpContext& ctx, UOp u, bool exact) {
  if (u.Is(Op::CONST)) {
    return u.dtype() == Dtype::U64 && u.const_int() < 0 ? UOp() : ctx.Idx(u.const_int());
  }
  if (!u.Is(Op::CAST) || u.src(0).dtype() != Dtype::Index) return UOp();
  return exact && !Holds(ctx, u.dtype(), u.src(0)) ? UOp() : u.src(0);
}

// op(cast(a), cast(b)) as cast(op(a, b)). Sums and products may wrap before or after the cast;
// other ops need casts that do not wrap.
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

// A comparison u of cast(x), x a bool, at source `side`, with a constant at the other source.
// Evaluates it for both values of x.
UOp CompareBool(UOpContext& ctx, UOp u, size_t side, UOp x) {
  bool at[2];
  for (bool v : {false, true}) {
    const ir::Scalar number = ir::Scalar::Int(Dtype::Bool, v);
    ir::Scalar operands[2];
    operands[side] = *ir::EvalAlu(Op::CAST, u.src(side).dtype(), std::span(&number, 1));
    operands[1 - side] = ir::Scalar::Of(u.src(1 - side));
    at[v] = ir::EvalAlu(u.op(), Dtype::Bool, operands)->i != 0;
  }
  if (at[0] == at[1]) return ctx.Bool(at[0]);
  return at[1] ? x : ir::Not(ctx, x);
}

}  // namespace

const RuleSet& CastRules() {
  static const RuleSet rules = Built("casts", [](RuleSet& r) {
    constexpr Any<0> x;
    constexpr Any<1> p;
    constexpr Any<2> y;
    constexpr auto constant = Node(Op::CONST);

    r.Add("cast_same", Node(Op::CAST, x), x,
          [x](const auto& m) { return m[x].dtype() == m.root().dtype(); });
    r.Add("bitcast_same", Node(Op::BITCAST, x), x,
          [x](const auto& m) { return m[x].dtype() == m.root().dtype(); });
    r.Add("bitcast_bitcast", Node(Op::BITCAST, Node(Op::BITCAST, x)), [x](const auto& m) -> UOp {
      if (m.root().src(0).dtype() == Dtype::TF32) return UOp();  // it has not all of the 32 bits
      return ir::Bitcast(m.ctx, m[x], m.root().dtype());
    });
    r.Add("cast_cast", Node(Op::CAST, Node(Op::CAST, x)), [x](const auto& m) -> UOp {
      const Dtype between = m.root().src(0).dtype(), to = m.root().dtype();
      // Casting a float to an integer saturates, casting an integer wraps: do not replace one by
      // the other.
      const bool saturates = ir::IsFloat(between) && !ir::IsFloat(to) &&
                             !ir::IsFloat(m[x].dtype()) && to != Dtype::Bool &&
                             !Lossless(m[x].dtype(), to);
      if (saturates) return UOp();
      const bool same_value = Lossless(m[x].dtype(), between) ||
                              // Before a cast to float keep the narrower integer: it converts
                              // faster.
                              (!ir::IsFloat(m[x].dtype()) && !ir::IsFloat(between) &&
                               !ir::IsFloat(to) && Holds(m.ctx, between, m[x]));
      // Of two truncating integer casts only the second one matters if it is the narrower.
      const bool cut = ir::IsInt(m[x].dtype()) && ir::IsInt(between) && ir::IsInt(to) &&
                       ir::Bits(to) <= ir::Bits(between);
      return same_value || cut ? ir::Cast(m.ctx, m[x], to) : UOp();
    });
    r.Add("to_bool", Node(Op::CAST, x), [x](const auto& m) -> UOp {
      if (m.root().dtype() != Dtype::Bool || m[x].dtype() == Dtype::Bool) return UOp();
      return ir::Alu(m.ctx, Op::CMPNE, {m[x], m.ctx.Const(m[x].dtype(), 0)});
    });
    // Comparisons of a bool cast to a number with a constant.
    r.Add("compare_of_bool", Group(ir::kComparisonOps, Node(Op::CAST, x.Is(kBools)), constant),
          [x](const auto& m) { return CompareBool(m.ctx, m.root(), 0, m[x]); });
    r.Add("compare_with_bool", Group(OpSet{Op::CMPLT}, constant, Node(Op::CAST, x.Is(kBools))),
          [x](const auto& m) { return CompareBool(m.ctx, m.root(), 1, m[x]); });
    // A cast moves into the branches of a WHERE if a branch is a constant: casting that costs
    // nothing.
    r.Add("cast_where", Node(Op::CAST, Where(p, x, y)), [p, x, y](const auto& m) -> UOp {
      const int constants = m[x].Is(Op::CONST) + m[y].Is(Op::CONST);
      // For an index both branches must be constants: lift_where does the opposite.
      if (constants < (m[x].dtype() == Dtype::Index ? 2 : 1)) return UOp();
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
