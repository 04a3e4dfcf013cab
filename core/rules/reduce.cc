// SPDX-License-Identifier: MIT
// Rules for reductions over ranges: removes ranges that need no loop, and moves factors out.
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/collapse.h"
#include "core/rules/rules.h"

namespace uopd::rules {
namespace {

using namespace rewrite;  // NOLINT: the vocabulary of rules

// Whether the REDUCE is a sum. For bools the maximum counts too: both are OR.
bool AddsOrOrs(UOp u) {
  return u.reduce_op() == Op::ADD || (u.reduce_op() == Op::MAX && u.dtype() == Dtype::Bool);
}

// The REDUCE u of `value`, without the range at source i.
UOp Without(UOpContext& ctx, UOp u, size_t i, UOp value) {
  ir::SymbolicDims ranges;
  for (size_t k = 1; k < u.n_src(); ++k) {
    if (k != i) ranges.push_back(u.src(k));
  }
  return ranges.empty() ? value : ir::ReduceRanges(ctx, u.reduce_op(), value, ranges);
}

// The REDUCE u with one range less; null if every range needs its loop.
UOp CollapseRange(UOpContext& ctx, UOp u) {
  if (u.n_src() == 1) return u.reduce_axes().empty() ? u.src(0) : UOp();
  const UOp value = u.src(0);
  // A small float accumulates in f32 and rounds once, at the end. Collapsing one of several ranges
  // would round in between.
  if (ir::IsSmallFloat(u.dtype()) && u.n_src() > 2) return UOp();
  for (size_t i = 1; i < u.n_src(); ++i) {
    const UOp range = u.src(i), size = range.src(0);
    if (range.dtype() != Dtype::Index) continue;
    UOp out;
    if (AddsOrOrs(u)) {
      out = SumOver(ctx, value, range);
    } else if (!ir::Reaches(ctx, value, range)) {
      // The maximum over an empty range is the identity element, not `value`.
      if (u.reduce_op() == Op::MAX && ctx.BoundsOf(size).min > 0) out = value;
      if (u.reduce_op() == Op::MUL && !ir::IsFloat(u.dtype()) && size.Is(Op::CONST) &&
          size.const_int() > 0) {
        out = u.dtype() == Dtype::Bool ? value : Power(ctx, value, size.const_int());
      }
    }
    if (out) return Without(ctx, u, i, out);
  }
  return UOp();
}

bool VariesWith(const UOpContext& ctx, UOp x, UOp reduce) {
  for (UOp range : reduce.srcs().subspan(1)) {
    if (ir::Reaches(ctx, x, range)) return true;
  }
  return false;
}

}  // namespace

UOp Power(UOpContext& ctx, UOp x, int64_t n) {
  UOp out;
  for (UOp square = x;; square = ir::Mul(ctx, square, square)) {
    if (n % 2 == 1) out = out ? ir::Mul(ctx, out, square) : square;
    n /= 2;
    if (n == 0) return out;
  }
}

UOp FactorOut(UOpContext& ctx, UOp reduce) {
  const UOp product = reduce.src(0);
  if (reduce.n_src() == 1 || reduce.reduce_op() != Op::ADD || !product.Is(Op::MUL)) return UOp();
  for (size_t i = 0; i < 2; ++i) {
    if (VariesWith(ctx, product.src(i), reduce)) continue;
    return ir::Mul(ctx,
                   ir::ReduceRanges(ctx, Op::ADD, product.src(1 - i), reduce.srcs().subspan(1)),
                   product.src(i));
  }
  return UOp();
}

const RuleSet& ReduceRules() {
  static const RuleSet rules = Built("reduce", [](RuleSet& r) {
    r.Add("range", Node(Op::REDUCE, Rest()),
          [](const auto& m) -> UOp { return CollapseRange(m.ctx, m.root()); });
    r.Add("factor",
          Node(Op::REDUCE, Group(OpSet{Op::MUL}, Any<0>().Is(kStoredInts), Rest()), Rest()),
          [](const auto& m) -> UOp { return FactorOut(m.ctx, m.root()); });
  });
  return rules;
}

}  // namespace uopd::rules
