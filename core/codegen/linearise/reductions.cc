// SPDX-License-Identifier: MIT
// The loops of reductions and arrays (lineariser.h).
#include <algorithm>
#include <utility>

#include "core/codegen/linearise/accumulator.h"
#include "core/codegen/linearise/lineariser.h"
#include "core/codegen/linearise/nests.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/unroll.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr ir::OpSet kProducts = {Op::WMMA, Op::MMA,
                                 Op::GROUP_PRODUCT};  // they add to an accumulator

// The statements that fill an array: STOREs, or a WMMA_BLOCK. Those of states
// (attention/online/online.h) may have loops of their own: ENDs.
std::vector<UOp> StoresOf(UOp array) {
  std::vector<UOp> out;
  Flatten(array.src(1).Is(Op::END) ? array.src(1).src(0) : array.src(1), out);
  return out;
}

// Those of all arrays of `together`, each once: states share their statements.
std::vector<UOp> StoresOfAll(std::span<const UOp> together) {
  std::vector<UOp> out;
  for (UOp r : together) {
    if (r.Is(Op::REDUCE)) continue;
    for (UOp s : StoresOf(r)) {
      if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    }
  }
  return out;
}

// Appends the values and addresses that a statement stores.
void AppendStored(UOp statement, bool in_loops, std::vector<UOp>& out) {
  if (statement.Is(Op::GROUP) || (in_loops && statement.Is(Op::END))) {
    for (UOp s : statement.body()) AppendStored(s, in_loops, out);
  } else if (!statement.Is(Op::END)) {
    out.insert(out.end(), statement.srcs().begin(), statement.srcs().end());
  }
}

// The op that joins the unrolled terms of a step of the reduction.
Op ChainOp(UOp reduce) {
  if (reduce.dtype() != Dtype::Bool) return reduce.reduce_op();
  return reduce.reduce_op() == Op::ADD ? Op::OR : Op::AND;
}

// The loops from the outermost to the innermost.
std::vector<UOp> InOrder(std::span<const UOp> closed) {
  std::vector<UOp> loops(closed.begin(), closed.end());
  std::sort(loops.begin(), loops.end(), [](UOp a, UOp b) {
    return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
  });
  return loops;
}

// Takes a kReduceChain apart: the unrolled terms of one step of a reduction, left to right.
void Terms(ir::UOpContext& ctx, UOp x, Op op, std::vector<UOp>& out) {
  std::vector<UOp> stack = {x};
  while (!stack.empty()) {
    const UOp u = stack.back();
    stack.pop_back();
    if (u.tag() == kReduceChain && u.Is(op)) {
      stack.push_back(u.src(1));
      stack.push_back(u.src(0));
    } else if (u.tag() == kReduceChain && u.Is(kProducts) && op == Op::ADD) {
      stack.push_back(ctx.Make(u.op(), u.dtype(), {u.src(0), u.src(1)}, u.arg()));
      stack.push_back(u.src(2));
    } else {
      out.push_back(u);
    }
  }
}

// Whether the term is a product that is added to the accumulator with one MULACC.
bool Fuses(const Target& target, UOp reduce, UOp term) {
  return target.has_fma && reduce.reduce_op() == Op::ADD && term.Is(Op::MUL) &&
         ir::IsFloat(term.dtype());
}

// Emits one term of a step of a reduction; returns the new value of the accumulator.
absl::StatusOr<UOp> AddTerm(Lineariser& l, UOp reduce, UOp acc, UOp term) {
  if (term.Is(kProducts) && term.n_src() == 2 && reduce.reduce_op() == Op::ADD) {
    UOPD_TRY(EmitValues(l, term.srcs()));
    return l.scopes.innermost().Line(
        l.ctx.Make(term.op(), acc.dtype(),
                   {l.scopes.New(term.src(0)), l.scopes.New(term.src(1)), acc}, term.arg()));
  }
  if (Fuses(l.target, reduce, term)) {
    UOPD_TRY(EmitValues(l, term.srcs()));
    return l.scopes.innermost().Line(l.ctx.Make(
        Op::MULACC, acc.dtype(), {l.scopes.New(term.src(0)), l.scopes.New(term.src(1)), acc}));
  }
  UOPD_TRY(EmitValues(l, std::span<const UOp>(&term, 1)));
  const UOp x = l.scopes.New(term);
  return l.scopes.innermost().LineAll(l.ctx, Combine(l.ctx, reduce.reduce_op(), acc, x), acc, x);
}

// One iteration of a sum: the accumulator, its new value, and the terms that are added.
struct SumStep {
  UOp at, value;
  std::vector<UOp> terms;
};

// Emits an iteration of each sum.
absl::StatusOr<std::vector<SumStep>> EmitSums(Lineariser& l, std::span<const Accumulator> acc) {
  // Term by term, each load right before its first use: so few values are alive at a time.
  std::vector<SumStep> steps;
  size_t most = 0;
  for (const Accumulator& a : acc) {
    const UOp now =
        l.scopes.innermost().Line(ir::After(l.ctx, a.buffer, {a.init, l.scopes.innermost().range}));
    SumStep step;
    step.at = l.scopes.innermost().Line(ir::Index(l.ctx, now, l.ctx.Idx(0), UOp(), a.lanes));
    step.value = l.scopes.innermost().Line(ir::Load(l.ctx, step.at));
    Terms(l.ctx, a.reduce.src(0), ChainOp(a.reduce), step.terms);
    most = std::max(most, step.terms.size());
    steps.push_back(std::move(step));
  }
  for (size_t t = 0; t < most; ++t) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (t >= steps[i].terms.size()) continue;
      UOPD_ASSIGN(steps[i].value, AddTerm(l, acc[i].reduce, steps[i].value, steps[i].terms[t]));
    }
  }
  return steps;
}

// Emits a statement inside of the open loops, with its own loops; returns its line.
absl::StatusOr<UOp> EmitStatement(Lineariser& l, UOp statement) {
  if (!statement.Is(Op::END)) {
    UOPD_TRY(EmitValues(l, statement.srcs()));
    std::vector<UOp> srcs;
    for (UOp of : statement.srcs()) srcs.push_back(l.scopes.New(of));
    return l.scopes.innermost().Line(
        l.ctx.Make(statement.op(), Dtype::Void, srcs, statement.arg()));
  }
  std::vector<UOp> values, parts, lines;
  AppendStored(statement, true, values);
  Flatten(statement.src(0), parts);
  UOPD_TRY(EmitValues(l, values));  // what does not depend on the loops
  const size_t depth = l.scopes.depth();
  for (UOp r : InOrder(statement.closed())) UOPD_TRY(OpenLoop(l, r));
  for (UOp s : parts) {
    UOPD_ASSIGN(const UOp line, EmitStatement(l, s));
    lines.push_back(line);
  }
  return l.scopes.Close(depth, std::move(lines));
}

}  // namespace

absl::Status EmitLoops(Lineariser& l, std::span<const UOp> together) {
  // Before the loops: everything that does not depend on them, then the accumulators.
  std::vector<UOp> terms;
  const std::vector<UOp> filled = StoresOfAll(together);
  for (UOp r : together) {
    if (r.Is(Op::REDUCE)) terms.push_back(r.src(0));
  }
  for (UOp s : filled) AppendStored(s, true, terms);
  UOPD_TRY(EmitValues(l, terms));
  std::vector<Accumulator> acc;
  for (UOp r : together) {
    if (!r.Is(Op::REDUCE)) continue;
    acc.push_back(MakeAccumulator(l, r, UOp(), l.scopes.innermost()));
  }
  const size_t depth = l.scopes.depth();
  for (UOp r : InOrder(LoopsOf(together[0]))) UOPD_TRY(OpenLoop(l, r));
  std::vector<UOp> stored;
  for (UOp s : filled) AppendStored(s, false, stored);
  UOPD_TRY(EmitValues(l, stored));
  UOPD_ASSIGN(const std::vector<SumStep> steps, EmitSums(l, acc));
  std::vector<UOp> stores;
  // Inner loops first: what they need of this iteration is loaded before it is stored.
  for (UOp s : filled) {
    if (!s.Is(Op::END)) continue;
    UOPD_ASSIGN(const UOp end, EmitStatement(l, s));
    stores.push_back(end);
  }
  for (const SumStep& step : steps)
    stores.push_back(l.scopes.innermost().Line(ir::Store(l.ctx, step.at, step.value)));
  for (UOp s : filled) {
    if (s.Is(Op::END)) continue;
    UOPD_ASSIGN(const UOp line, EmitStatement(l, s));
    stores.push_back(line);
  }
  if (const UOp end = l.scopes.Close(depth, stores)) stores = {end};
  for (const Accumulator& a : acc) {
    const UOp after = l.scopes.innermost().Line(ir::After(l.ctx, a.buffer, stores));
    const UOp at = l.scopes.innermost().Line(ir::Index(l.ctx, after, l.ctx.Idx(0), UOp(), a.lanes));
    l.scopes.innermost().made[a.reduce.id()] = l.scopes.innermost().Line(ir::Load(l.ctx, at));
  }
  for (UOp r : together) {
    if (r.Is(Op::REDUCE)) continue;
    l.scopes.innermost().made[r.id()] =
        l.scopes.innermost().Line(ir::After(l.ctx, l.scopes.New(r.src(0)), stores));
  }
  return absl::OkStatus();
}

}  // namespace uopd::codegen
