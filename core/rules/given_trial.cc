// SPDX-License-Identifier: MIT
#include "core/rules/given_trial.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/rewrite/rewriter.h"
#include "core/rules/rules.h"
#include "core/rules/terms.h"

namespace uopd::rules {

using ir::Bounds;
using ir::Dtype;
using ir::Int128;
using ir::Op;
using ir::UOp;
using ir::UOpContext;

namespace {

constexpr uint64_t kMaxSteps = 20000;

}  // namespace

const Fact* MaybeFactOf(std::span<const Fact> facts, UOp u) {
  for (const Fact& f : facts) {
    if (f.condition == u) return &f;
  }
  return nullptr;
}

Trial::Trial(UOpContext& ctx, const MathGraph& graph, std::span<const Fact> facts,
             std::span<const BoundedNode> tight)
    : ctx_(ctx), graph_(graph), facts_(facts), tight_(tight), there_(graph.nodes().size()) {
  scratch_.set_interrupt(ctx_.maybe_interrupt());
}

UOp Trial::Run(const BoundedSum* maybe_sum) {
  const int64_t weight = graph_.Weight();
  const UOp whole = maybe_sum != nullptr ? ReplaceTerm(*maybe_sum) : UOp();
  CopyRest();
  rewrite::Rewriter rewriter(scratch_, PlainRules(), {.max_steps = kMaxSteps});
  UOp out = rewriter.Run(there_.back());
  if (whole) out = rewriter.Run(WithTerms(out, *maybe_sum, whole));
  if (!rewriter.status().ok()) return UOp();
  // If no variable stands for arithmetic, weights are comparable already: stop early.
  if (plain_ && MathGraph(out).Weight() >= weight) return UOp();
  return Back(out, weight);
}

const BoundedNode* Trial::MaybeTight(UOp u) const {
  for (const BoundedNode& t : tight_) {
    if (t.node == u) return &t;
  }
  return nullptr;
}

UOp Trial::Variable(UOp u, Bounds bounds) {
  const int64_t ends[] = {static_cast<int64_t>(std::max<Int128>(bounds.min, INT64_MIN)),
                          static_cast<int64_t>(std::min<Int128>(bounds.max, INT64_MAX))};
  const UOp v = scratch_.Make(Op::DEFINE_VAR, u.dtype(), std::span<const UOp>{},
                              scratch_.Data(ends, Cat("v", variables_.size())));
  variables_.emplace_back(u, v);
  plain_ &= !IsMath(u);
  return v;
}

UOp Trial::Leaf(UOp u) {
  const size_t i = graph_.IndexOf(u);
  if (i != MathGraph::kNowhere && there_[i]) return there_[i];
  if (i == MathGraph::kNowhere) {
    for (const auto& [here, v] : variables_) {
      if (here == u) return v;
    }
  }
  const BoundedNode* t = MaybeTight(u);
  const UOp out = u.Is(Op::CONST) ? scratch_.Int(u.dtype(), u.const_int())
                                  : Variable(u, t != nullptr ? t->bounds : ctx_.BoundsOf(u));
  if (i != MathGraph::kNowhere) there_[i] = out;
  return out;
}

UOp Trial::ReplaceTerm(const BoundedSum& sum) {
  const UOp whole = Variable(sum.value, sum.bounds);
  UOp value = whole;
  int64_t sign = 1;
  for (const Term& t : sum.sum.terms) {
    if (t.value == sum.replaced) {
      sign = t.factor;
    } else {
      value = ir::Sub(scratch_, value, ir::Mul(scratch_, Leaf(t.value), scratch_.Idx(t.factor)));
    }
  }
  value = ir::Sub(scratch_, value, scratch_.Idx(sum.sum.constant));
  there_[graph_.IndexOf(sum.replaced)] = ir::Mul(scratch_, value, scratch_.Idx(sign));
  return whole;
}

void Trial::CopyRest() {
  ir::SymbolicDims src;
  for (size_t i = 0; i < there_.size(); ++i) {
    const UOp u = graph_.nodes()[i];
    if (there_[i]) continue;
    if (const Fact* f = MaybeFactOf(facts_, u)) {
      there_[i] = scratch_.Bool(f->holds);
    } else if (!IsMath(u) || MaybeTight(u) != nullptr) {
      Leaf(u);
    } else {
      src.clear();
      for (UOp s : u.srcs()) src.push_back(there_[graph_.IndexOf(s)]);
      there_[i] = scratch_.Make(u.op(), u.dtype(), src);
    }
  }
}

UOp Trial::WithTerms(UOp out, const BoundedSum& sum, UOp variable) {
  const UOp replaced = Variable(sum.replaced, ctx_.BoundsOf(sum.replaced));
  UOp total;
  for (const Term& t : sum.sum.terms) {
    const UOp value = t.value == sum.replaced ? replaced : Leaf(t.value);
    const UOp term = ir::Mul(scratch_, value, scratch_.Idx(t.factor));
    total = total ? ir::Add(scratch_, total, term) : term;
  }
  ir::Substitution back;
  back[variable.id()] = ir::Add(scratch_, total, scratch_.Idx(sum.sum.constant));
  return ir::Substitute(scratch_, out, back);
}

UOp Trial::Back(UOp out, int64_t weight) {
  ir::Substitution here;
  for (const auto& [u, v] : variables_) here[v.id()] = u;
  out = ir::CopyTo(scratch_, out, ctx_, here);
  // The order of operands, and with it signs, may differ between the contexts. So simplify again in
  // this one, and require that result to weigh less: otherwise the rules could turn it back into
  // the original expression, without end.
  rewrite::Rewriter settle(ctx_, PlainRules(), {.max_steps = kMaxSteps});
  out = settle.Run(out);
  if (!settle.status().ok()) return UOp();
  const MathGraph made(out);
  if (made.Weight() >= weight) return UOp();
  // In this context the parts have wider bounds, so check that every index still fits 64 bits.
  for (UOp u : made.nodes()) {
    if (u.dtype() == Dtype::Index && !FitsIndex(ctx_, u)) return UOp();
  }
  return out;
}

}  // namespace uopd::rules
