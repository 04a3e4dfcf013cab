// SPDX-License-Identifier: MIT
#include "core/codegen/opts/make/make_kernel.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/codegen/cpu/make/keep_partials.h"
#include "core/codegen/cpu/make/split_scan.h"
#include "core/codegen/cpu/make/vector_product.h"
#include "core/codegen/gpu/product/warp_product.h"
#include "core/codegen/machine.h"
#include "core/codegen/opts/kinds/prefetch.h"
#include "core/codegen/opts/kinds/stream.h"
#include "core/codegen/opts/make/making.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;

// Whether some slot is declared with two dtypes.
bool DeclaresTwice(ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<int64_t, UOp> params;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::PARAM) && !params.emplace(u.slot(), u).second) return true;
  }
  return false;
}

// Whether u, a product of loads, is 0 in the padding of the axis: then a sum needs no condition,
// and each product is one multiply-add.
bool IsZeroInPadding(const PlanKernel& kernel, UOp u, size_t axis) {
  // The gate of a load covers the padding of the axes that its index depends on.
  if (u.Is(Op::LOAD)) return kernel.Along(u.src(0).src(1), axis);
  if (u.Is(Op::CAST)) return IsZeroInPadding(kernel, u.src(0), axis);
  return u.Is(Op::MUL) && IsZeroInPadding(kernel, u.src(0), axis) &&
         IsZeroInPadding(kernel, u.src(1), axis);
}

// The replacements of the nodes of the plan's kernel, sources first.
class KernelMaker {
 public:
  KernelMaker(const PlanView& plan, bool loads_words) : ctx_(plan.ctx), made_{plan, loads_words} {
    made_.axes = MakeAxes(plan, made_.next_id);
    of_warp_ = state().instruction && state().instruction->of_warp();
    if (of_warp_) MakeWarpRanges(made_);
    FindPaddedStores();
    FindFactors();
  }

  UOp Make() {
    const UOp out = Rebuild(ctx_, kernel().sink, [&](UOp u, std::span<const UOp> srcs) {
      const UOp node = MakeNode(u, srcs);
      if (const auto it = factors_.find(u.id()); it != factors_.end()) it->second = node;
      if (of_warp_ && StoresInQuads(made_.plan, u)) in_quads_.push_back(node);
      return node;
    });
    return of_warp_ ? PlaceResults(made_, out, in_quads_) : out;
  }

 private:
  const PlanState& state() const { return made_.state(); }
  const PlanKernel& kernel() const { return made_.kernel(); }

  // What a STORE must ask about the ranges around it that its address does not depend on: an axis
  // of one iteration has no part in it, and its padding would store the same element once more.
  void FindPaddedStores() {
    for (UOp u : kernel().order) {
      if (!u.Is(Op::END)) continue;
      std::vector<UOp> statements = {u.src(0)};
      while (!statements.empty()) {
        const UOp s = statements.back();
        statements.pop_back();
        if (s.Is({Op::GROUP, Op::END})) {
          for (UOp inner : s.body()) statements.push_back(inner);
        }
        if (!s.Is(Op::STORE)) continue;
        for (UOp r : u.closed()) {
          const size_t i = kernel().AxisOf(r);
          if (!made_.axes[i].maybe_valid || kernel().Along(s.src(0).src(1), i)) continue;
          UOp& valid = in_padding_[s.id()];
          valid = AndValid(ctx_, valid, made_.axes[i]);
        }
      }
    }
  }

  // The operands of TC pack their words instead of their loads.
  void FindFactors() {
    for (UOp u : kernel().order) {
      if (!state().IsMmaSum(u)) continue;
      const Factors f = *SmallFactors(u);
      for (UOp operand : {f.a, f.b}) {
        factors_[operand.id()] = UOp();
        for (UOp n : ir::Toposort(ctx_, operand)) in_words_.insert(n.id());
      }
    }
  }

  // The condition under which the iteration of an INDEX or a STAGE is no padding; null if always. A
  // STAGE stores nothing in the padding of the ranges that it closes.
  UOp MaybeValid(UOp index) const {
    UOp valid;
    for (size_t i = 0; i < made_.axes.size(); ++i) {
      if (!made_.axes[i].maybe_valid) continue;
      bool along = kernel().Along(index.src(1), i);
      // A gate says what it says of iterations that there are: i == j < 3 lets i be 3 where j is
      // padded to 4.
      if (index.Is(Op::INDEX) && index.n_src() == 3) along |= kernel().Along(index.src(2), i);
      for (UOp r : index.closed()) along |= r == state().axes[i].range;
      if (along) valid = AndValid(ctx_, valid, made_.axes[i]);
    }
    return valid;
  }

  UOp MakeNode(UOp u, std::span<const UOp> srcs) {
    switch (u.op()) {
      case Op::RANGE:
        return made_.AxisOf(u).value;
      case Op::INDEX: {
        UOp gate = srcs.size() == 3 ? srcs[2] : UOp();
        if (const UOp valid = MaybeValid(u)) gate = gate ? And(ctx_, gate, valid) : valid;
        return ir::Index(ctx_, srcs[0], srcs[1], gate, u.arg().AsInt());
      }
      case Op::LOAD:
        return MakeLoad(u, srcs);
      case Op::STORE:
        return MakeStore(u, srcs);
      case Op::SCAN:
        return MakeScan(u, srcs);
      default:
        break;
    }
    if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, srcs);
    return state().IsMmaSum(u) ? MakeProduct(u) : MakeClosing(u, srcs);
  }

  UOp MakeLoad(UOp u, std::span<const UOp> srcs) {
    const int64_t distance = PrefetchDistance(made_.plan, u);
    const bool packs =
        !in_words_.contains(u.id()) && std::ranges::find(state().packed, u) != state().packed.end();
    if (!packs && distance == 0) return rules::WithIndexSources(ctx_, u, srcs);
    const UOp load = ctx_.Make(Op::LOAD, u.dtype(), srcs, u.arg(), distance);
    return packs ? MakePacked(made_, load) : load;
  }

  UOp MakeStore(UOp u, std::span<const UOp> srcs) {
    const bool streams = std::ranges::find(state().streamed, u) != state().streamed.end();
    const auto it = in_padding_.find(u.id());
    if (!streams && it == in_padding_.end()) return rules::WithIndexSources(ctx_, u, srcs);
    std::vector<UOp> out(srcs.begin(), srcs.end());
    if (it != in_padding_.end()) {
      const UOp to = srcs[0];
      const UOp gate = to.n_src() == 3 ? And(ctx_, to.src(2), it->second) : it->second;
      out[0] = ir::Index(ctx_, to.src(0), to.src(1), gate, to.arg().AsInt());
    }
    return ctx_.Make(Op::STORE, u.dtype(), out, u.arg(), streams ? kStreamed : u.tag());
  }

  UOp MakeScan(UOp u, std::span<const UOp> srcs) {
    std::vector<UOp> out = {srcs[0]};
    UOp thread;
    for (UOp r : u.scanned()) {
      for (UOp part : made_.AxisOf(r).ranges) {
        if (part.axis_type() == AxisType::THREAD) {
          thread = part;
        } else {
          out.push_back(part);
        }
      }
    }
    if (thread)
      return SplitScan(ctx_, u.reduce_op(), out[0], std::span<const UOp>(out).subspan(1), thread,
                       made_.next_id);
    return out.size() == 1 ? out[0] : ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
  }

  // The sum of TC.
  UOp MakeProduct(UOp u) {
    const Factors f = *SmallFactors(u);
    const Factors operands{factors_.at(f.a.id()), factors_.at(f.b.id())};
    if (of_warp_) return MakeWarpProduct(made_, u, operands);
    return MakeOverPanels(u, MakeVectorProduct(made_, u, operands));
  }

  // A node that closes ranges, and is no sum of TC.
  UOp MakeClosing(UOp u, std::span<const UOp> srcs) {
    const bool keeps_partials = MachineOf(made_.plan.target).keeps_partials;
    std::vector<UOp> out(srcs.begin(), srcs.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
    if (u.Is(Op::STAGE)) {
      if (const UOp valid = MaybeValid(u)) out[2] = And(ctx_, out[2], valid);
    }
    for (UOp r : u.closed()) {
      const MadeAxis& axis = made_.AxisOf(r);
      if (!keeps_partials && axis.maybe_panels) out.push_back(axis.maybe_panels);
      out.insert(out.end(), axis.ranges.begin(), axis.ranges.end());
      const bool adds = u.Is(Op::REDUCE) && u.reduce_op() == Op::ADD;
      if (adds && IsZeroInPadding(kernel(), u.src(0), kernel().AxisOf(r))) continue;
      if (u.Is(Op::REDUCE) && axis.maybe_valid) {
        const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
        const UOp otherwise = ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                                     : ctx_.Int(u.dtype(), identity.i);
        out[0] = Where(ctx_, axis.maybe_valid, out[0], otherwise);
      }
    }
    if (of_warp_ && u.Is(Op::END)) {
      out.push_back(made_.warp.lane);
      out.insert(out.end(), made_.warp.element.begin(), made_.warp.element.end());
    }
    const UOp closed =
        out.size() == 1 ? out[0] : ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
    return u.Is(Op::REDUCE) && keeps_partials ? MakeOverPanels(u, closed) : closed;
  }

  // The result of `reduce` over all panels (BLOCK), where `value` is that over one of them.
  UOp MakeOverPanels(UOp reduce, UOp value) {
    std::vector<UOp> panels;
    for (UOp r : reduce.closed()) {
      if (const UOp mine = made_.AxisOf(r).maybe_panels) panels.push_back(mine);
    }
    if (panels.empty()) return value;
    // The loops along which something is packed are the outer ones, as around the panel (MakeAxes).
    std::vector<PackPart> parts = PartsOf(made_, value, false);
    std::sort(parts.begin(), parts.end(), [](const PackPart& a, const PackPart& b) {
      return a.range.axis_id() < b.range.axis_id();
    });
    return KeepPartials(ctx_, value, reduce.reduce_op(), panels, parts, fill_);
  }

  ir::UOpContext& ctx_;
  Making made_;
  bool of_warp_ = false;                    // TC by an instruction of a warp
  ir::Substitution in_padding_;             // STORE -> condition
  ir::Substitution factors_;                // operand of TC -> its replacement
  absl::flat_hash_set<uint32_t> in_words_;  // what the operands of TC are computed from
  FillRanges fill_{made_.next_id};          // of partial results
  std::vector<UOp> in_quads_;               // STOREs of the new graph
};

}  // namespace

UOp MakeKernel(const PlanView& plan) {
  const UOp out = KernelMaker(plan, true).Make();
  const bool of_warp = plan.state.instruction && plan.state.instruction->of_warp();
  // Words and elements of one buffer.
  return of_warp && DeclaresTwice(plan.ctx, out) ? KernelMaker(plan, false).Make() : out;
}

}  // namespace uopd::codegen
