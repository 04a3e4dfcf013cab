// SPDX-License-Identifier: MIT
// Constant folding with the reference evaluator.
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// Ops of floats that devices compute with errors of their own. They are not folded: a value that is
// constant in one kernel, or at one place, and computed in another would be rounded in two ways.
constexpr OpSet kApproximated = {Op::EXP2, Op::EXP, Op::LOG2, Op::LOG,
                                 Op::SIN,  Op::COS, Op::POW,  Op::MULACC};

UOp Fold(UOpContext& ctx, UOp u) {
  if (u.Is(kApproximated) && ir::IsFloat(u.dtype())) return UOp();
  ir::Scalar operands[3];
  for (size_t i = 0; i < u.n_src(); ++i) operands[i] = ir::Scalar::Of(u.src(i));
  const auto out = ir::EvalAlu(u.op(), u.dtype(), std::span(operands, u.n_src()));
  if (!out) return UOp();
  return ir::IsFloat(u.dtype()) ? ctx.Float(u.dtype(), out->f) : ctx.Int(u.dtype(), out->wide());
}

}  // namespace

const RuleSet& FoldRules() {
  static const RuleSet rules = Built("fold", [](RuleSet& r) {
    constexpr auto constant = Node(Op::CONST);
    r.Add("constants", Group(ir::kElementwiseOps, Each(constant)), [](const auto& m) -> UOp {
      // An index that leaves 64 bits is invalid (Verify refuses it): do not fold it.
      if (m.root().dtype() == Dtype::Index) {
        const ir::Bounds b = m.ctx.BoundsOf(m.root());
        return b.IsPoint() &&
                       b.Within({ir::RangeOf(Dtype::Index).min, ir::RangeOf(Dtype::Index).max})
                   ? m.ctx.Int(Dtype::Index, b.min)
                   : UOp();
      }
      return Fold(m.ctx, m.root());
    });
    // Any integer, index or bool whose bounds are a single value.
    r.Add("point", Is(Group(ir::kElementwiseOps | OpSet{Op::DEFINE_VAR}, Rest()), kNotFloat),
          [](const auto& m) -> UOp {
            const UOp u = m.root();
            const ir::Bounds b = m.ctx.BoundsOf(u);
            if (!b.IsPoint()) return UOp();
            const ir::IntRange range = ir::RangeOf(u.dtype());
            return b.Within({range.min, range.max}) ? m.ctx.Int(u.dtype(), b.min) : UOp();
          });
  });
  return rules;
}

}  // namespace uopd::rules
