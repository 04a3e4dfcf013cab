// SPDX-License-Identifier: MIT
#include "server/engine/kept/sum_forms.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "core/base/text.h"
#include "core/codegen/opts/opt_plan.h"
#include "core/codegen/passes/prepare_stages.h"
#include "core/codegen/passes/sum_forms.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"

namespace uopd::engine {
namespace {

using ir::Op;
using ir::UOp;

using FormSet = std::set<std::string>;
// The forms of each kind of reduction, by the number of its results.
using Forms = std::map<std::string, std::map<int64_t, FormSet>>;

// Reductions are tagged with numbers from here on, so that they are found again after the opts.
constexpr int64_t kFirstTag = 1 << 20;

std::string Joined(const FormSet& forms, const char* between) {
  std::string out;
  for (const std::string& form : forms) Append(out, out.empty() ? "" : between, form);
  return out;
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

// How many results the reduction has: the product of the loops of the kernel that it depends on.
int64_t ResultsOf(const ir::UOpContext& ctx, UOp reduce) {
  int64_t out = 1;
  for (UOp u : ir::Toposort(ctx, reduce)) {
    if (u.Is(Op::RANGE) && u.axis_type() == ir::AxisType::LOOP && u.src(0).Is(Op::CONST))
      out *= u.src(0).const_int();
  }
  return out;
}

// The kernel with a tag on each reduction, which opts leave on what becomes of it.
UOp WithTags(ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<uint32_t, UOp> done;
  int64_t next = kFirstTag;
  const std::vector<UOp> sums = codegen::FloatSums(ctx, sink);
  std::vector<UOp> srcs;
  for (UOp u : ir::Toposort(ctx, sink)) {
    srcs.clear();
    for (UOp s : u.srcs()) srcs.push_back(done.at(s.id()));
    const bool tagged = std::ranges::find(sums, u) != sums.end();
    done[u.id()] = ctx.Make(u.op(), u.dtype(), srcs, u.arg(), tagged ? next++ : u.tag());
  }
  return done.at(sink.id());
}

// Opts may change the order of the reductions in the graph, and make several of one.
absl::Status AddForms(const Kernel& kernel, Forms& out) {
  ir::UOpContext ctx;
  UOPD_ASSIGN(UOp sink, ir::Decode(ctx, kernel.graph, ir::Level::kKernel));
  sink = WithTags(ctx, codegen::PrepareStages(ctx, sink));
  const std::vector<UOp> before = codegen::FloatSums(ctx, sink);
  if (before.empty()) return absl::OkStatus();
  const Target& target = kernel.device->device().target();
  UOPD_ASSIGN(UOp applied, codegen::ApplyOpts(ctx, sink, target, kernel.opts));
  std::string also;  // what these opts say of all sums of the kernel
  for (const codegen::Opt& opt : kernel.opts) {
    using enum codegen::OptKind;
    if (opt.kind == kTensorCore || opt.kind == kOnline || opt.kind == kBlock)
      Append(also, ", ", codegen::Text(opt));
  }
  const codegen::SumForms made(ctx, applied, target);
  for (UOp reduce : before) {
    FormSet forms;
    for (UOp sum : made.sums()) {
      // A sum without a tag may come from any of them.
      if (sum.tag() == reduce.tag() || sum.tag() < kFirstTag)
        forms.insert(made.Of(sum, codegen::AxesOfSum(reduce)));
    }
    out[KindOf(reduce)][ResultsOf(ctx, reduce)].insert(Joined(forms, " and ") + also);
  }
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

// The forms of a kind of reduction, whatever the number of its results.
FormSet All(const std::map<int64_t, FormSet>& forms) {
  FormSet out;
  for (const auto& [results, some] : forms) out.insert(some.begin(), some.end());
  return out;
}

// Whether both have one form, the same one: for all numbers of results, or for each of them.
bool Agree(const std::map<int64_t, FormSet>& a, const std::map<int64_t, FormSet>& b) {
  const FormSet all = All(a);
  if (all.size() == 1 && all == All(b)) return true;
  return a == b && std::ranges::all_of(a, [](const auto& of) { return of.second.size() == 1; });
}

}  // namespace

std::string DifferentSums(const Program& one, std::span<const Program* const> parts) {
  Forms mine, theirs;
  absl::Status status = AddForms(one, mine);
  for (const Program* part : parts) status.Update(AddForms(*part, theirs));
  if (!status.ok()) return StatusText(status);
  std::string out;
  const auto add = [&](const std::string& kind, std::string_view what) {
    Append(out, out.empty() ? "" : "; ", kind, what);
  };
  for (const auto& [kind, found] : mine) {
    const auto other = theirs.find(kind);
    if (other == theirs.end()) {
      add(kind, " is in one of them only");
    } else if (!Agree(found, other->second)) {
      add(kind, Cat(" has the forms (", Joined(All(found), "; "), ") and (",
                    Joined(All(other->second), "; "), ")"));
    }
  }
  for (const auto& [kind, found] : theirs) {
    if (!mine.contains(kind)) add(kind, " is in one of them only");
  }
  return out;
}

}  // namespace uopd::engine
