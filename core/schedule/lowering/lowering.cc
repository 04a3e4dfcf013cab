// SPDX-License-Identifier: MIT
#include "core/schedule/lowering/lowering.h"

#include <algorithm>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "core/rules/ranges.h"
#include "core/schedule/lowering/kernel_ranges.h"

namespace uopd::schedule {
namespace {

using ir::Op;
using ir::UOp;
using ir::UOpContext;

// True if the demand loads u from a buffer: another root realises u, or u is a PARAM that the root
// of the demand does not realise.
bool IsLoaded(const Fusion& f, UOp u, const Demand& d) {
  const int32_t realised = f.at(u).realised;
  if (realised >= 0 && !d.after) return d.root != static_cast<uint32_t>(realised);
  return u.Is(Op::PARAM);
}

bool LoadsStaged(const Fusion& f, UOp u, const Demand& d) {
  return f.at(u).staged >= 0 && !d.fills;
}

// The output of the demand's root that has the value of the AFTER u; null if that root does not
// write it.
const Output* Forwarded(const Fusion& f, UOp u, const Demand& d) {
  if (d.after) return nullptr;
  const UOp store = f.MaybeOnlyStore(u);
  if (!store) return nullptr;
  const auto [root, output] = f.stores.at(store.id());
  return root == d.root ? &f.roots[root].outputs[output] : nullptr;
}

// Calls f for every operand, see Operands.
template <class F>
void ForEachOperand(const Fusion& f, UOp u, const Demand& d, F call) {
  if (IsLoaded(f, u, d) || u.Is(Op::PARAM)) return;
  if (LoadsStaged(f, u, d))
    return call(ValueRef{u, f.staged[static_cast<size_t>(f.at(u).staged)].demand});
  if (const Output* out = Forwarded(f, u, d)) return call(ValueRef{out->value, out->demand});
  size_t next = d.sources;
  if (u.Is(Op::AFTER)) return call(ValueRef{f.at(u).under, f.sources[next]});
  for (UOp s : ValueSources(u)) call(ValueRef{s, f.sources[next++]});
}

class RootLowerer {
 public:
  RootLowerer(UOpContext& ctx, Accesses& accesses, Addresses& addresses, Fusion& fusion)
      : ctx_(ctx), accesses_(accesses), addresses_(addresses), f_(fusion) {}

  // The kernel of root r. If interrupted, its `raw` is null.
  Kernel Run(uint32_t r) {
    kernel_.root = r;
    const Root& root = f_.roots[r];
    ir::SymbolicDims targets, stores;
    for (const Output& out : root.outputs) {
      kernel_.placeholders.push_back({out.storage, out.node.Is(Op::STORE) ? out.node : UOp()});
      targets.push_back(
          Address(static_cast<uint32_t>(kernel_.placeholders.size() - 1), out.access, true));
    }
    for (size_t o = 0; o < root.outputs.size(); ++o) {
      const UOp value = Value({root.outputs[o].value, root.outputs[o].demand});
      if (!value) return std::move(kernel_);
      stores.push_back(ir::Store(ctx_, targets[o], value));
    }
    const UOp statement =
        stores.size() == 1 ? stores[0] : ctx_.Make(Op::GROUP, ir::Dtype::Void, stores);
    // Put the loops around staged values outside of the others, and the loop of running sums
    // inside.
    std::vector<UOp> ranges;
    for (const bool around : {true, false}) {
      for (UOp range : root.ranges) {
        if (range == root.scanned) continue;
        if (((root.staged_ranges & UsedRanges::Bit(range)) != 0) == around) ranges.push_back(range);
      }
    }
    if (root.scanned) ranges.push_back(root.scanned);
    const UOp end = ir::End(ctx_, statement, ranges);
    kernel_.raw = ir::KernelSink(ctx_, std::span(&end, 1), "");
    return std::move(kernel_);
  }

 private:
  UOp& Slot(ValueRef v) { return f_.at(v.node).demands[v.demand].value; }
  UOp Done(ValueRef v) { return IsUniform(v.node) ? v.node : Slot(v); }

  // The expression of a demand; operands are made first. Iterative, so chains may have any length.
  // Null if interrupted.
  UOp Value(ValueRef wanted) {
    std::vector<ValueRef> stack = {wanted};
    ir::SymbolicDims values;
    while (!stack.empty()) {
      const ValueRef v = stack.back();
      if (Done(v)) {
        stack.pop_back();
        continue;
      }
      if (ctx_.Interrupted()) return UOp();
      const Demand& d = f_.at(v.node).demands[v.demand];
      const auto before = static_cast<std::ptrdiff_t>(stack.size());
      values.clear();
      ForEachOperand(f_, v.node, d, [&](ValueRef o) {
        values.push_back(Done(o));
        if (!values.back()) stack.push_back(o);
      });
      if (static_cast<std::ptrdiff_t>(stack.size()) > before) {
        std::reverse(stack.begin() + before, stack.end());  // visit the first operand next
        continue;
      }
      Slot(v) = Compute(v.node, d, values);
      stack.pop_back();
    }
    return Done(wanted);
  }

  UOp Address(uint32_t placeholder, const Access* access, bool is_output) {
    const Storage& s = f_.storages[static_cast<size_t>(kernel_.placeholders[placeholder].storage)];
    const auto [it, fresh] =
        addresses_.try_emplace({placeholder, s.dtype, s.shape, access, is_output});
    if (fresh) it->second = NewAddress(placeholder, access, is_output ? UOp() : access->gate);
    return it->second;
  }

  UOp NewAddress(uint32_t placeholder, const Access* access, UOp gate) {
    const Storage& s = f_.storages[static_cast<size_t>(kernel_.placeholders[placeholder].storage)];
    const int64_t elements = s.elements;
    const UOp buffer =
        ir::Buffer(ctx_, placeholder, s.dtype, ir::ShapeArg(ctx_, std::span(&elements, 1)),
                   ir::AddrSpace::GLOBAL);
    const UOp at = accesses_.Offset(s.shape, access);
    return ir::Index(ctx_, buffer, at, Checked(at, elements, gate));
  }

  // The gate of an access at offset `at`. If bounds do not prove that the offset is in range, the
  // kernel checks it. The check never fails: with sizes that are variables, bounds are not exact
  // (n - 1 - i is at least 0 for every i < n). An access that padding gates needs no check.
  UOp Checked(UOp at, int64_t elements, UOp gate) {
    if (gate && !gate.IsConstInt(1)) return gate;
    const ir::Bounds bounds = ctx_.BoundsOf(at);
    auto check = [&](UOp holds) { gate = gate ? ir::And(ctx_, gate, holds) : holds; };
    if (bounds.min < 0) check(ir::Not(ctx_, ir::Lt(ctx_, at, ctx_.Idx(0))));
    if (bounds.max >= elements) check(ir::Lt(ctx_, at, ctx_.Idx(elements)));
    return gate;
  }

  UOp LoadFrom(Placeholder from, const Demand& d) {
    // The placeholders of outputs are for writing; a load of the same buffer gets its own.
    const auto begin = kernel_.placeholders.begin() +
                       static_cast<std::ptrdiff_t>(f_.roots[kernel_.root].outputs.size());
    auto it = std::find(begin, kernel_.placeholders.end(), from);
    if (it == kernel_.placeholders.end()) it = kernel_.placeholders.insert(it, from);
    const auto number = static_cast<uint32_t>(it - kernel_.placeholders.begin());
    return ir::Load(ctx_, Address(number, d.access, false));
  }

  // Loads u from its staged value; `value` is the expression that fills it.
  UOp LoadStaged(UOp u, const Demand& d, UOp value) {
    const StagedValue& staged = f_.staged[static_cast<size_t>(f_.at(u).staged)];
    const Access* filled = f_.at(u).demands[staged.demand].access;
    IndexList fill, load;
    for (size_t a : staged.axes) {
      fill.push_back(filled->index[a]);
      load.push_back(d.access->index[a]);
    }
    const int64_t elements = ir::Product(staged.dims);
    const UOp to = accesses_.Simple(FlatIndex(ctx_, staged.dims, fill));
    const UOp memory = ir::Staged(ctx_, value, elements, to, UOp(), staged.ranges);
    const UOp at = accesses_.Simple(FlatIndex(ctx_, staged.dims, load));
    // Sizes that are variables leave the end of the array without values, where padding may look.
    const ir::Bounds bounds = ctx_.BoundsOf(at);
    const bool inside =
        bounds.min >= 0 && bounds.max < elements &&
        std::all_of(
            staged.ranges.begin(), staged.ranges.end(),
            [](UOp range) { return !range.Is(Op::RANGE) || range.src(0).Is(Op::CONST); });
    const UOp gate = inside ? UOp() : Checked(at, elements, d.access->gate);
    return ir::Load(ctx_, ir::Index(ctx_, memory, at, gate));
  }

  UOp Compute(UOp u, const Demand& d, const ir::SymbolicDims& values) {
    if (LoadsStaged(f_, u, d)) return LoadStaged(u, d, values[0]);
    if (IsLoaded(f_, u, d)) {
      const int32_t realised = f_.at(u).realised;
      if (realised < 0 || d.after) return LoadFrom({f_.slot_storage.at(u.slot()), d.after}, d);
      const Output& out = f_.roots[static_cast<size_t>(realised)].outputs[f_.at(u).output];
      return LoadFrom({out.storage, out.node.Is(Op::STORE) ? out.node : UOp()}, d);
    }
    switch (u.op()) {
      case Op::PARAM:  // u is realised: this root copies it
        return LoadFrom({f_.slot_storage.at(u.slot()), UOp()}, d);
      case Op::IOTA:
        return ir::Cast(ctx_, d.access->index[static_cast<size_t>(u.arg().AsInt())], u.dtype());
      case Op::REDUCE:
        return Reduce(u, d, values[0]);
      case Op::SCAN: {
        const UOp range = d.access->index[static_cast<size_t>(u.reduce_axes()[0])];
        if (!range.Is(Op::RANGE)) return values[0];  // one element
        return ir::ScanRanges(ctx_, u.reduce_op(), values[0], std::span(&range, 1));
      }
      case Op::STACK: {
        UOp out = values.back();
        for (size_t i = values.size() - 1; i-- > 0;) {
          const UOp here =
              ir::Alu(ctx_, Op::CMPEQ, {d.access->index[0], ctx_.Idx(static_cast<int64_t>(i))});
          out = ir::Where(ctx_, here, values[i], out);
        }
        return out;
      }
      case Op::PAD: {
        UOp gate = ctx_.Bool(true);
        SourceIndex(ctx_, u, d.access->index, gate);
        return ir::Where(ctx_, gate, values[0], ctx_.Const(u.dtype(), 0));
      }
      default:
        return u.Is(ir::kElementwiseOps) ? ctx_.Make(u.op(), u.dtype(), values) : values[0];
    }
  }

  UOp Reduce(UOp u, const Demand& d, UOp value) {
    for (UOp range : d.reduce_ranges) {
      if (!range.src(0).IsConstInt(0)) continue;
      const ir::Scalar identity = ir::ReduceIdentity(u.reduce_op(), u.dtype());
      return ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                    : ctx_.Int(u.dtype(), identity.wide());
    }
    return d.reduce_ranges.empty() ? value
                                   : ir::ReduceRanges(ctx_, u.reduce_op(), value, d.reduce_ranges);
  }

  UOpContext& ctx_;
  Accesses& accesses_;
  Addresses& addresses_;
  Fusion& f_;
  Kernel kernel_;
};

bool IsEmpty(const Root& root) {
  for (UOp range : root.ranges) {
    if (range.src(0).IsConstInt(0)) return true;
  }
  return false;
}

}  // namespace

Way WayOf(const Fusion& f, UOp u, const Demand& d) {
  if (IsLoaded(f, u, d) || u.Is(Op::PARAM)) return Way::kLoaded;
  if (LoadsStaged(f, u, d)) return Way::kStaged;
  return Forwarded(f, u, d) != nullptr ? Way::kForwarded : Way::kComputed;
}

absl::InlinedVector<ValueRef, 3> Operands(const Fusion& f, UOp u, const Demand& d) {
  absl::InlinedVector<ValueRef, 3> operands;
  ForEachOperand(f, u, d, [&](ValueRef o) { operands.push_back(o); });
  return operands;
}

const Lowering::Analysis& Lowering::Analyse(UOp raw) {
  const auto [it, fresh] = analyses_.try_emplace(raw.id());
  Analysis& a = it->second;
  if (!fresh) return a;
  const UOp tidy = rules::TidyRanges(ctx_, simplify_, simplify_.Run(raw), int64_t{1} << 33);
  a.sink = ShareRanges(ctx_, simplify_, tidy);
  for (UOp u : ir::Toposort(ctx_, a.sink)) {
    if (!u.Is({Op::LOAD, Op::STORE})) continue;
    const UOp index = u.src(0);
    if (index.src(0).Is(Op::STAGE)) continue;
    (u.Is(Op::LOAD) ? a.loads : a.stores)
        .emplace_back(static_cast<uint32_t>(index.src(0).slot()), index.src(1));
  }
  std::vector<UOp> terms;
  for (UOp u : ir::Toposort(ctx_, a.sink)) {
    if (u.Is({Op::REDUCE, Op::STAGE})) terms.insert(terms.end(), u.body().begin(), u.body().end());
  }
  for (UOp u : ir::Toposort(ctx_, terms)) {
    if (u.Is(Op::LOAD) && !u.src(0).src(0).Is(Op::STAGE))
      a.looped.push_back(static_cast<uint32_t>(u.src(0).src(0).slot()));
  }
  return a;
}

void Lowering::FindReads(Kernel& kernel) {
  const Analysis& a = Analyse(kernel.raw);
  for (const auto& [p, at] : a.loads) {
    kernel.reads.push_back(p);
    for (const auto& [q, stored_at] : a.stores) {
      kernel.hazard |=
          kernel.placeholders[p].storage == kernel.placeholders[q].storage && at != stored_at;
    }
  }
  for (const uint32_t p : a.looped) {
    for (const auto& [q, at] : a.stores)
      kernel.block_hazard |= kernel.placeholders[p].storage == kernel.placeholders[q].storage;
  }
  std::sort(kernel.reads.begin(), kernel.reads.end());
  kernel.reads.erase(std::unique(kernel.reads.begin(), kernel.reads.end()), kernel.reads.end());
}

std::vector<Kernel> Lowering::Run(Fusion& fusion) {
  std::vector<Kernel> out;
  for (uint32_t r = 0; r < fusion.roots.size(); ++r) {
    if (fusion.roots[r].is_copy || IsEmpty(fusion.roots[r])) continue;
    out.push_back(RootLowerer(ctx_, accesses_, addresses_, fusion).Run(r));
    if (ctx_.Interrupted() || !out.back().raw) break;
    // The kernel stores nothing: simplification found that a size is zero, such as n * 0.
    if (Analyse(out.back().raw).stores.empty()) {
      out.pop_back();
      continue;
    }
    FindReads(out.back());
  }
  return out;
}

// The kernel with its ranges numbered and its placeholders as PARAMs. Null if it reads a
// placeholder that has none.
UOp Lowering::Numbered(UOp sink, std::span<const uint32_t> param) {
  ir::Substitution map;
  int64_t next_range = 0;
  auto renumber = [&](UOp range) {
    if (map.contains(range.id())) return;
    map[range.id()] = ir::Range(ctx_, range.src(0), next_range++, range.axis_type());
  };
  const auto order = ir::Toposort(ctx_, sink);
  for (UOp u : order) {
    if (!u.Is(Op::END)) continue;
    for (size_t i = 1; i < u.n_src(); ++i) renumber(u.src(i));
  }
  // A reduction adds up in the order of its axes, however its kernel came about. So its ranges are
  // numbered together.
  absl::flat_hash_map<uint32_t, UOp> reduction;  // by id of a RANGE: the first one over it
  for (UOp u : order) {
    if (!u.Is(Op::REDUCE)) continue;
    for (UOp range : u.closed()) reduction.try_emplace(range.id(), u);
  }
  for (UOp u : order) {
    if (const auto found = reduction.find(u.id()); found != reduction.end()) {
      for (UOp range : found->second.closed()) renumber(range);
    }
    if (u.Is(Op::RANGE)) renumber(u);
    if (!u.Is(Op::BUFFER)) continue;
    const uint32_t number = param[static_cast<size_t>(u.slot())];
    if (number == UINT32_MAX) return UOp();
    map[u.id()] = ir::Param(ctx_, number, u.dtype(), u.src(0));
  }
  return ir::Substitute(ctx_, sink, map);
}

bool Lowering::DropUnread(UOp made, std::vector<uint32_t>& param,
                          std::vector<uint32_t>& placeholders) const {
  std::vector<bool> used(placeholders.size());
  for (UOp u : ir::Toposort(ctx_, made)) {
    if (u.Is(Op::PARAM)) used[static_cast<size_t>(u.slot())] = true;
  }
  if (std::ranges::find(used, false) == used.end()) return false;
  std::vector<uint32_t> left, number(used.size(), UINT32_MAX);
  for (size_t k = 0; k < used.size(); ++k) {
    if (!used[k]) continue;
    number[k] = static_cast<uint32_t>(left.size());
    left.push_back(placeholders[k]);
  }
  for (uint32_t& k : param) {
    if (k != UINT32_MAX) k = number[k];
  }
  placeholders = std::move(left);
  return true;
}

absl::StatusOr<const FinishedKernel*> Lowering::Finish(const Kernel& kernel) {
  // The PARAM of each placeholder that is still used. Placeholders of one buffer share a PARAM.
  std::vector<uint32_t> param;
  param.reserve(kernel.placeholders.size());
  const size_t outputs = [&] {
    const UOp end = kernel.raw.src(0);
    const UOp statement = end.Is(Op::END) ? end.src(0) : end;
    return statement.Is(Op::GROUP) ? statement.n_src() : size_t{1};
  }();
  std::vector<uint32_t> used;
  used.reserve(kernel.placeholders.size());
  for (uint32_t p = 0; p < kernel.placeholders.size(); ++p) {
    param.push_back(UINT32_MAX);
    if (p >= outputs && !std::binary_search(kernel.reads.begin(), kernel.reads.end(), p)) continue;
    for (uint32_t k = 0; k < used.size(); ++k) {
      if (kernel.placeholders[used[k]].storage == kernel.placeholders[p].storage) param[p] = k;
    }
    if (param[p] != UINT32_MAX) continue;
    param[p] = static_cast<uint32_t>(used.size());
    used.push_back(p);
  }
  UOPD_TRY(ctx_.CheckInterrupt());
  const auto [it, fresh] = finished_.try_emplace({kernel.raw.id(), param});
  if (!fresh) return &it->second;

  FinishedKernel out;
  const UOp simple = analyses_.at(kernel.raw.id()).sink;
  const UOp merged = MergeRanges(ctx_, simplify_, SplitRanges(ctx_, simplify_, simple));
  UOPD_TRY(ctx_.CheckInterrupt());
  // An index that is simpler can be one whose bounds are no longer seen to fit: (3*i + j) / 4
  // becomes i + (j - i) / 4, in which i and j seem to be independent.
  UOp made;
  absl::Status verified;
  for (const UOp sink : {merged, simple, kernel.raw}) {
    made = Numbered(sink, param);
    if (!made) continue;
    // Merged ranges may show that a load is of no use, which the analysis did not see.
    std::vector<uint32_t> numbers = param, placeholders = used;
    if (DropUnread(made, numbers, placeholders)) made = Numbered(sink, numbers);
    const absl::Status status = ir::Verify(ctx_, made, ir::Level::kKernel);
    UOPD_TRY(ctx_.CheckInterrupt());
    if (status.ok() || verified.ok()) verified = status;
    out.placeholders = std::move(placeholders);
    if (status.ok()) break;
  }
  if (!verified.ok()) {
    finished_.erase(it);
    return UOPD_BUG(Cat("scheduling made a kernel that does not verify: ", StatusText(verified)));
  }
  out.graph = ir::Encode(ctx_, made);
  it->second = std::move(out);
  return &it->second;
}

}  // namespace uopd::schedule
