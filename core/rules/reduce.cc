// SPDX-License-Identifier: MIT
// Reductions over ranges.
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// A range that the value does not use repeats it: a sum multiplies by the size, a maximum is the
// value itself.
UOp DropUnusedRanges(UOpContext& ctx, UOp u) {
  const Op op = u.reduce_op();
  if (u.n_src() == 1) return u.reduce_axes().empty() ? u.src(0) : UOp();
  if (op == Op::MUL) return UOp();
  std::vector<UOp> kept;
  UOp value = u.src(0), repeats;
  for (size_t i = 1; i < u.n_src(); ++i) {
    const UOp range = u.src(i);
    const bool concrete = range.src(0).Is(Op::CONST);
    // The maximum of nothing is the identity, so a range that may be empty stays.
    const bool droppable = op == Op::MAX ? ctx.BoundsOf(range.src(0)).min > 0
                                         : concrete && range.src(0).const_int() < int64_t{1} << 24;
    if (!droppable || ir::Reaches(ctx, value, range)) {
      kept.push_back(range);
    } else if (op == Op::ADD) {
      repeats = repeats ? ir::Mul(ctx, repeats, range.src(0)) : range.src(0);
    }
  }
  if (kept.size() + 1 == u.n_src()) return UOp();
  UOp out = kept.empty() ? value : ir::ReduceRanges(ctx, op, value, kept);
  if (repeats) {
    if (u.dtype() == Dtype::Bool) return UOp();
    out = ir::Mul(ctx, out, ir::Cast(ctx, repeats, u.dtype()));
  }
  return out;
}

}  // namespace

const RuleSet& ReduceRules() {
  static const RuleSet rules = Built("reduce", [](RuleSet& r) {
    r.Add("unused_range", Node(Op::REDUCE, Rest()),
          [](const auto& m) -> UOp { return DropUnusedRanges(m.ctx, m.root()); });
  });
  return rules;
}

}  // namespace uopd::rules
