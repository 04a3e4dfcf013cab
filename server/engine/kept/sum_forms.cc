// SPDX-License-Identifier: MIT
#include "server/engine/kept/sum_forms.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/base/text.h"
#include "core/codegen/opt/apply.h"
#include "core/codegen/opt/order_loops.h"
#include "core/codegen/opt/prepare_stages.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"

namespace uopd::engine {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

using Forms = std::map<std::string, std::set<std::string>>;  // kind of a reduction -> its forms

std::string SizeOf(UOp range) {
  return range.src(0).Is(Op::CONST) ? Cat(range.src(0).const_int()) : "n";
}

// The kind of a reduction of the kernel before its opts are applied.
std::string KindOf(UOp reduce) {
  int64_t terms = 1;
  bool symbolic = false;
  for (UOp r : reduce.closed()) {
    symbolic |= !r.src(0).Is(Op::CONST);
    if (!symbolic) terms *= r.src(0).const_int();
  }
  UOp term = reduce.src(0);
  while (term.Is(Op::CAST)) term = term.src(0);
  const bool product = term.Is(Op::MUL);
  const char* what = !product ? "values" : term.src(0) == term.src(1) ? "squares" : "products";
  return Cat(ir::Name(reduce.op()), " ", ir::Name(reduce.reduce_op()), " of ",
             symbolic ? std::string("n") : Cat(terms), " ", Name(reduce.dtype()), " ", what);
}

std::vector<UOp> Reductions(const ir::UOpContext& ctx, UOp sink) {
  std::vector<UOp> out;
  for (UOp u : ir::Toposort(ctx, sink)) {
    // A maximum is the same in any order, and so is what has no rounding.
    if (u.Is({Op::REDUCE, Op::SCAN}) && u.reduce_op() != Op::MAX && ir::IsFloat(u.dtype()))
      out.push_back(u);
  }
  return out;
}

// Whether unrolled terms of the reduction join one accumulator, one after the other. A reduction of few
// copies, by unrolled loops around it, has accumulators for each term instead (passes/unroll.cc).
bool JoinInTurn(const ir::UOpContext& ctx, UOp reduce, const Target& target) {
  int64_t copies = 1;
  const auto closed = reduce.closed();
  for (UOp u : ir::Toposort(ctx, reduce)) {
    const bool copied =
        u.Is(Op::RANGE) && (u.axis_type() == AxisType::UPCAST || u.axis_type() == AxisType::UNROLL);
    if (copied && std::ranges::find(closed, u) == closed.end()) copies *= u.src(0).const_int();
  }
  return copies >= (target.blocks ? 2 : 8);
}

// `one_axis`: the kernel's reductions have one loop each before the opts.
std::string FormOf(const ir::UOpContext& ctx, UOp reduce, bool one_axis, const Target& target) {
  std::vector<UOp> ranges(reduce.closed().begin(), reduce.closed().end());
  std::ranges::sort(ranges, {}, [](UOp r) { return r.axis_id(); });
  const auto is = [](AxisType type) { return [type](UOp r) { return r.axis_type() == type; }; };
  const auto loops = std::ranges::count_if(ranges, is(AxisType::REDUCE));
  const bool unrolled = std::ranges::any_of(ranges, is(AxisType::UNROLL));
  const bool in_turn = !unrolled || JoinInTurn(ctx, reduce, target);
  // A loop whose steps add several terms in turn is as good as one that adds them one by one.
  const bool plain = one_axis && loops == 1 && in_turn;
  std::string out = plain ? "in turn" : in_turn ? "" : "apart";
  for (UOp r : ranges) {
    if (plain && (r.axis_type() == AxisType::REDUCE || r.axis_type() == AxisType::UNROLL)) continue;
    Append(out, " ", ir::Name(r.axis_type()), SizeOf(r));
  }
  return out;
}

// All reductions of a kernel get the forms of all: opts may change their order in the graph.
absl::Status AddForms(const Kernel& kernel, Forms& out) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(UOp sink, ir::Decode(ctx, kernel.graph, ir::Level::kKernel));
  sink = codegen::PrepareStages(ctx, sink);
  const std::vector<UOp> before = Reductions(ctx, sink);
  if (before.empty()) return absl::OkStatus();
  const Target& target = kernel.device->device().target();
  UOPD_ASSIGN(UOp applied, codegen::ApplyOpts(ctx, sink, target, kernel.opts));
  applied = codegen::OrderReductions(ctx, applied);
  const bool one_axis =
      std::ranges::all_of(before, [](UOp reduce) { return reduce.closed().size() == 1; });
  std::vector<std::string> forms;
  for (UOp reduce : Reductions(ctx, applied))
    forms.push_back(FormOf(ctx, reduce, one_axis, target));
  for (const codegen::Opt& opt : kernel.opts) {
    using enum codegen::OptKind;
    if (opt.kind == kTensorCore || opt.kind == kOnline || opt.kind == kBlock)
      forms.push_back(codegen::Text(opt));
  }
  std::ranges::sort(forms);
  forms.erase(std::ranges::unique(forms).begin(), forms.end());
  std::string all;
  for (const std::string& form : forms) Append(all, all.empty() ? "" : ", ", form);
  for (UOp reduce : before) out[KindOf(reduce)].insert(all);
  return absl::OkStatus();
}

absl::Status AddForms(const Program& program, Forms& out) {
  absl::flat_hash_set<const Kernel*> seen;
  for (const Step& step : program.steps) {
    if (step.kernel == nullptr || !seen.insert(step.kernel.get()).second) continue;
    UOPD_TRY(AddForms(*step.kernel, out));
  }
  return absl::OkStatus();
}

std::string Joined(const std::set<std::string>& forms) {
  std::string out;
  for (const std::string& form : forms) Append(out, out.empty() ? "(" : "; ", form);
  return out + ")";
}

}  // namespace

std::string DifferentSums(const Program& one, std::span<const Program* const> parts) {
  Forms mine, theirs;
  absl::Status status = AddForms(one, mine);
  for (const Program* part : parts) status.Update(AddForms(*part, theirs));
  if (!status.ok()) return StatusText(status);
  for (const auto* forms : {&mine, &theirs}) {
    for (const auto& [kind, found] : *forms) {
      const auto a = mine.find(kind), b = theirs.find(kind);
      if (a == mine.end() || b == theirs.end()) return Cat(kind, " is in one of them only");
      if (a->second != b->second || found.size() > 1)
        return Cat(kind, " has the forms ", Joined(a->second), " and ", Joined(b->second));
    }
  }
  return "";
}

}  // namespace uopd::engine
