// SPDX-License-Identifier: MIT
// The loops of reductions, arrays and running sums, and their accumulators.
//
// Invariant: an accumulator is set up right outside of the outermost loop that changes it.
#include <algorithm>
#include <utility>

#include "core/base/telemetry/log.h"
#include "core/codegen/linearise/lineariser.h"
#include "core/codegen/passes/combine.h"
#include "core/codegen/passes/scans.h"
#include "core/codegen/passes/unroll.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"

namespace uopd::codegen {
namespace {

using ir::AddrSpace;
using ir::Dtype;
using ir::Op;
using ir::UOp;

constexpr ir::OpSet kProducts = {Op::WMMA, Op::MMA,
                                 Op::GROUP_PRODUCT};  // they add to an accumulator

// The statements that fill an array: STOREs, or a WMMA_BLOCK. Those of states (attention/online.h) may have
// loops of their own: ENDs.
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

}  // namespace

// The sums of all threads before, in an array of the launch: thread k waits for element k, which the
// thread before it has stored, and stores element k + 1.
absl::Status Lineariser::EmitThreadScan(UOp u) {
  Block& home = path_[0];
  const UOp thread = New(RangesOf(u)[0]), total = New(u.src(0));
  const auto line = [&](UOp n) {
    home.lines.push_back(n);
    return n;
  };
  const int64_t threads = thread.src(0).const_int();
  const UOp array = line(ir::Buffer(ctx_, next_register_++, u.dtype(),
                                    ir::ShapeArg(ctx_, ir::Dims{threads + 1}), AddrSpace::LOCAL));
  const UOp waits = line(Lt(ctx_, ctx_.Idx(0), thread));
  const UOp before = line(ir::Load(ctx_, line(ir::Index(ctx_, array, thread, waits))));
  const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
  const UOp none =
      ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f) : ctx_.Int(u.dtype(), identity.i);
  const UOp start = line(ctx_.Make(Op::WHERE, u.dtype(), {waits, before, none}));
  const UOp next = Combine(ctx_, u.reduce_op(), start, total);
  for (UOp n : ir::Toposort(ctx_, std::span<const UOp>(&next, 1),
                            [&](UOp n) { return n != start && n != total; })) {
    if (n != start && n != total && !n.Is(Op::CONST)) line(n);
  }
  const UOp other = line(ctx_.Make(Op::ADD, Dtype::Index, {thread, ctx_.Idx(1)}));
  line(ir::Store(ctx_, line(ir::Index(ctx_, array, other)), next));
  home.made[u.id()] = start;
  return absl::OkStatus();
}

absl::Status Lineariser::EmitScan(UOp u) {
  const auto over = RangesOf(u);
  if (over[0].axis_type() == ir::AxisType::THREAD) return EmitThreadScan(u);
  LoopSet scanned = 0;
  for (UOp r : RangesOf(u)) scanned |= bit_.at(r.id());
  size_t outer = 1;
  while (outer < path_.size() && (path_[outer].bit & scanned) == 0) ++outer;
  if (outer == path_.size()) return UOPD_BUG("a SCAN is outside of its loops");
  const UOp start = MaybeStartOf(u) ? New(MaybeStartOf(u)) : UOp();
  const Accumulator a = MakeAccumulator(u, start, path_[outer - 1].lines);
  Block& home = Home(u);
  const auto line = [&](UOp n) {
    home.lines.push_back(n);
    return n;
  };
  const UOp now = line(ir::After(ctx_, a.buffer, {a.init, home.range}));
  const UOp at = line(ir::Index(ctx_, now, ctx_.Idx(0), UOp(), a.lanes));
  const UOp before = line(ir::Load(ctx_, at)), x = New(u.src(0));
  const UOp after = Combine(ctx_, u.reduce_op(), before, x);
  for (UOp n : ir::Toposort(ctx_, std::span<const UOp>(&after, 1),
                            [&](UOp n) { return n != before && n != x; })) {
    if (n != before && n != x && !n.Is(Op::CONST)) line(n);
  }
  line(ir::Store(ctx_, at, after));
  home.made[u.id()] = u.tag() == kBefore ? before : after;
  return absl::OkStatus();
}

absl::Status Lineariser::EmitLoops(std::span<const UOp> together) {
  const auto closed = LoopsOf(together[0]);
  std::vector<UOp> loops(closed.begin(), closed.end());
  std::sort(loops.begin(), loops.end(), [](UOp a, UOp b) {
    return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
  });
  // Before the loops: everything that does not depend on them, then the accumulators.
  std::vector<UOp> terms;
  const std::vector<UOp> filled = StoresOfAll(together);
  for (UOp r : together) {
    if (r.Is(Op::REDUCE)) terms.push_back(r.src(0));
  }
  for (UOp s : filled) AppendStored(s, true, terms);
  UOPD_TRY(Emit(terms));
  std::vector<Accumulator> acc;
  for (UOp r : together) {
    if (!r.Is(Op::REDUCE)) continue;
    acc.push_back(MakeAccumulator(r, UOp(), path_.back().lines));
  }
  const size_t depth = path_.size();
  for (UOp l : loops) UOPD_TRY(Open(l));
  std::vector<UOp> stored;
  for (UOp s : filled) AppendStored(s, false, stored);
  UOPD_TRY(Emit(stored));
  // Term by term, each load right before its first use: so few values are alive at a time.
  struct Step {
    UOp at, value;
    std::vector<UOp> terms;
  };
  std::vector<Step> steps;
  size_t most = 0;
  for (const Accumulator& a : acc) {
    const UOp now = Line(ir::After(ctx_, a.buffer, {a.init, path_.back().range}));
    Step step;
    step.at = Line(ir::Index(ctx_, now, ctx_.Idx(0), UOp(), a.lanes));
    step.value = Line(ir::Load(ctx_, step.at));
    Terms(a.reduce.src(0), ChainOp(a.reduce), step.terms);
    most = std::max(most, step.terms.size());
    steps.push_back(std::move(step));
  }
  for (size_t t = 0; t < most; ++t) {
    for (size_t i = 0; i < steps.size(); ++i) {
      if (t >= steps[i].terms.size()) continue;
      UOPD_ASSIGN(steps[i].value, AddTerm(acc[i].reduce, steps[i].value, steps[i].terms[t]));
    }
  }
  std::vector<UOp> stores;
  // Inner loops first: what they need of this iteration is loaded before it is stored.
  for (UOp s : filled) {
    if (!s.Is(Op::END)) continue;
    UOPD_ASSIGN(const UOp end, EmitStatement(s));
    stores.push_back(end);
  }
  for (const Step& step : steps) stores.push_back(Line(ir::Store(ctx_, step.at, step.value)));
  for (UOp s : filled) {
    if (s.Is(Op::END)) continue;
    UOPD_ASSIGN(const UOp line, EmitStatement(s));
    stores.push_back(line);
  }
  if (const UOp end = Close(depth, stores)) stores = {end};
  for (const Accumulator& a : acc) {
    const UOp after = Line(ir::After(ctx_, a.buffer, stores));
    const UOp at = Line(ir::Index(ctx_, after, ctx_.Idx(0), UOp(), a.lanes));
    path_.back().made[a.reduce.id()] = Line(ir::Load(ctx_, at));
  }
  for (UOp r : together) {
    if (r.Is(Op::REDUCE)) continue;
    path_.back().made[r.id()] = Line(ir::After(ctx_, New(r.src(0)), stores));
  }
  return absl::OkStatus();
}

absl::StatusOr<UOp> Lineariser::EmitStatement(UOp statement) {
  if (!statement.Is(Op::END)) {
    UOPD_TRY(Emit(statement.srcs()));
    std::vector<UOp> srcs;
    for (UOp of : statement.srcs()) srcs.push_back(New(of));
    return Line(ctx_.Make(statement.op(), Dtype::Void, srcs, statement.arg()));
  }
  std::vector<UOp> values, parts, lines;
  AppendStored(statement, true, values);
  Flatten(statement.src(0), parts);
  UOPD_TRY(Emit(values));  // what does not depend on the loops
  const size_t depth = path_.size();
  std::vector<UOp> loops(statement.closed().begin(), statement.closed().end());
  std::sort(loops.begin(), loops.end(), [](UOp a, UOp b) {
    return std::pair(a.axis_id(), a.id()) < std::pair(b.axis_id(), b.id());
  });
  for (UOp l : loops) UOPD_TRY(Open(l));
  for (UOp s : parts) {
    UOPD_ASSIGN(const UOp line, EmitStatement(s));
    lines.push_back(line);
  }
  return Close(depth, std::move(lines));
}

Lineariser::Accumulator Lineariser::MakeAccumulator(UOp u, UOp maybe_start,
                                                    std::vector<UOp>& lines) {
  const auto line = [&](UOp n) {
    lines.push_back(n);
    return n;
  };
  const ir::Shape shape = *ctx_.ShapeOf(u);
  Accumulator a;
  a.reduce = u;
  a.lanes = shape.empty() ? 0 : shape[0].const_int();
  a.buffer =
      ir::Buffer(ctx_, next_register_++, u.dtype(),
                 ir::ShapeArg(ctx_, ir::Dims{std::max<int64_t>(a.lanes, 1)}), AddrSpace::REG);
  const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
  UOp value = maybe_start              ? maybe_start
              : ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                       : ctx_.Int(u.dtype(), identity.i);
  line(a.buffer);
  if (a.lanes > 0) {
    // Accumulators in other loops may start with the same vector: it stands outside of all loops.
    value = ctx_.Make(Op::STACK, u.dtype(), std::vector<UOp>(static_cast<size_t>(a.lanes), value));
    path_[0].lines.push_back(value);
  }
  a.init =
      line(ir::Store(ctx_, line(ir::Index(ctx_, a.buffer, ctx_.Idx(0), UOp(), a.lanes)), value));
  return a;
}

void Lineariser::Terms(UOp x, Op op, std::vector<UOp>& out) {
  std::vector<UOp> stack = {x};
  while (!stack.empty()) {
    const UOp u = stack.back();
    stack.pop_back();
    if (u.tag() == kReduceChain && u.Is(op)) {
      stack.push_back(u.src(1));
      stack.push_back(u.src(0));
    } else if (u.tag() == kReduceChain && u.Is(kProducts) && op == Op::ADD) {
      stack.push_back(ctx_.Make(u.op(), u.dtype(), {u.src(0), u.src(1)}, u.arg()));
      stack.push_back(u.src(2));
    } else {
      out.push_back(u);
    }
  }
}

absl::StatusOr<UOp> Lineariser::AddTerm(UOp reduce, UOp acc, UOp term) {
  if (term.Is(kProducts) && term.n_src() == 2 && reduce.reduce_op() == Op::ADD) {
    UOPD_TRY(Emit(term.srcs()));
    return Line(
        ctx_.Make(term.op(), acc.dtype(), {New(term.src(0)), New(term.src(1)), acc}, term.arg()));
  }
  if (Fuses(reduce, term)) {
    UOPD_TRY(Emit(term.srcs()));
    return Line(ctx_.Make(Op::MULACC, acc.dtype(), {New(term.src(0)), New(term.src(1)), acc}));
  }
  UOPD_TRY(Emit(std::span<const UOp>(&term, 1)));
  return LineAll(Combine(ctx_, reduce.reduce_op(), acc, New(term)), acc, New(term));
}

bool Lineariser::Fuses(UOp reduce, UOp term) const {
  return target_.has_fma && reduce.reduce_op() == Op::ADD && term.Is(Op::MUL) &&
         ir::IsFloat(term.dtype());
}

}  // namespace uopd::codegen
