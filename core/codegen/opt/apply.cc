// SPDX-License-Identifier: MIT
// OptPlan::Make: builds the graph of a plan.
#include "core/codegen/opt/apply.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/opt/pack.h"
#include "core/codegen/passes/rebuild.h"
#include "core/ir/analysis/eval.h"
#include "core/ir/build.h"
#include "core/ir/graph.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {

using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

// Axis ids decide the order of the loops. Loops around packed loads come before the others, so that
// a copy is made outside of the loops that it does not depend on. The loop of running sums comes last:
// their accumulators begin anew in each iteration of the loops around it.
std::vector<OptPlan::MadeAxis> OptPlan::MakeAxes(int64_t& next_id) {
  std::vector<size_t> order;
  const auto packed = [&](size_t i) {
    return std::any_of(packed_.begin(), packed_.end(), [&](UOp load) { return Along(load, i); });
  };
  for (size_t i = 0; i < axes_.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(axes_[a].is_scanned, !packed(a), a) <
           std::tuple(axes_[b].is_scanned, !packed(b), b);
  });
  std::vector<MadeAxis> out(axes_.size());
  for (const size_t number : order) {
    const Axis& a = axes_[number];
    MadeAxis& made = out[number];
    auto add = [&](UOp value, UOp size, ir::AxisType type, int64_t stride) {
      const UOp range = Range(ctx_, size, next_id++, type);
      made.ranges.push_back(range);
      made.strides.push_back(stride);
      return IndexSum(ctx_, value, IndexProduct(ctx_, range, ctx_.Idx(stride)));
    };
    // Strides. The remaining loop advances by the product of the inner parts, an inner part by the
    // product of the parts inside of it, the outer part by everything else.
    int64_t inside = 1;
    for (const Axis::Part& p : a.parts) inside *= p.outer ? 1 : p.amount;
    const int64_t tile = inside, others = a.size * inside;
    UOp outer = ctx_.Idx(0), inner = ctx_.Idx(0);  // the value is their sum
    if (a.size != 1) {
      outer = add(outer, a.size >= 0 ? ctx_.Idx(a.size) : a.symbolic,
                  a.is_threads ? ir::AxisType::THREAD : a.range.axis_type(), inside);
    }
    // The part split off last lies directly inside the loop that is left.
    for (size_t i = a.parts.size(); i-- > 0;) {
      const Axis::Part& p = a.parts[i];
      if (!p.outer) inside /= p.amount;
      UOp& sum = p.outer ? outer : inner;
      sum = add(sum, ctx_.Idx(p.amount), p.type, p.outer ? others : inside);
    }
    const int64_t size = a.range.src(0).Is(Op::CONST) ? a.range.src(0).const_int() : 0;
    if (a.padded && !a.is_reduce && !a.is_scanned && size >= tile && !in_place_) {
      // The last tile begins earlier and computes some elements once more: no gates.
      const auto negated = [&](UOp u) { return ir::Alu(ctx_, Op::NEG, {u}); };
      outer = negated(ir::Alu(ctx_, Op::MAX, {negated(outer), ctx_.Idx(tile - size)}));
    } else if (a.padded) {
      made.maybe_valid = Lt(ctx_, IndexSum(ctx_, outer, inner), a.range.src(0));
    }
    made.value = IndexSum(ctx_, outer, inner);
  }
  return out;
}

UOp OptPlan::MakePacked(UOp load, std::span<const MadeAxis> made, int64_t& next_id) {
  constexpr auto kCovered = [](UOp r) {
    return r.axis_type() != ir::AxisType::LOOP && r.axis_type() != ir::AxisType::THREAD;
  };
  absl::flat_hash_set<uint32_t> used;
  for (UOp u : ir::Toposort(ctx_, load.src(0))) {
    if (u.Is(Op::RANGE)) used.insert(u.id());
  }
  std::vector<PackPart> parts;
  for (size_t i = 0; i < made.size(); ++i) {
    for (size_t k = 0; k < made[i].ranges.size(); ++k) {
      const UOp r = made[i].ranges[k];
      if (kCovered(r) && used.contains(r.id()))
        parts.push_back({r, i, made[i].strides[k], axes_[i].is_reduce});
    }
  }
  return parts.empty() ? load : PackLoad(ctx_, load, parts, next_id);
}

UOp OptPlan::Make() {
  int64_t next_id = 0;
  const std::vector<MadeAxis> made = MakeAxes(next_id);
  // The condition under which the iteration of an INDEX or a STAGE is no padding; null if always. A
  // STAGE stores nothing in the padding of the ranges that it closes.
  auto valid_of = [&](UOp index) {
    UOp valid;
    for (size_t i = 0; i < made.size(); ++i) {
      if (!made[i].maybe_valid) continue;
      bool along = Along(index.src(1), i);
      for (UOp r : index.closed()) along |= r == axes_[i].range;
      if (!along) continue;
      valid = valid ? And(ctx_, valid, made[i].maybe_valid) : made[i].maybe_valid;
    }
    return valid;
  };
  return Rebuild(ctx_, sink_, [&](UOp u, std::span<const UOp> srcs) -> UOp {
    if (u.Is(Op::RANGE)) return made[number_.at(u.id())].value;
    if (u.Is(Op::INDEX)) {
      UOp gate = srcs.size() == 3 ? srcs[2] : UOp();
      if (const UOp valid = valid_of(u)) gate = gate ? And(ctx_, gate, valid) : valid;
      return ir::Index(ctx_, srcs[0], srcs[1], gate, u.arg().AsInt());
    }
    if (u.Is(Op::LOAD) && std::find(packed_.begin(), packed_.end(), u) != packed_.end())
      return MakePacked(ir::Load(ctx_, srcs[0]), made, next_id);
    if (u.Is(Op::LOAD)) {
      if (const int64_t distance = PrefetchDistance(u); distance != 0)
        return ctx_.Make(Op::LOAD, u.dtype(), srcs, u.arg(), distance);
    }
    if (u.Is(Op::STORE) && std::find(streamed_.begin(), streamed_.end(), u) != streamed_.end())
      return ctx_.Make(Op::STORE, u.dtype(), srcs, u.arg(), kStreamed);
    if (u.Is(Op::SCAN)) {
      std::vector<UOp> out = {srcs[0]};
      for (UOp r : u.scanned()) {
        const auto& ranges = made[number_.at(r.id())].ranges;
        out.insert(out.end(), ranges.begin(), ranges.end());
      }
      return out.size() == 1 ? out[0] : ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
    }
    if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, srcs);
    std::vector<UOp> out(srcs.begin(), srcs.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
    if (u.Is(Op::STAGE)) {
      if (const UOp valid = valid_of(u)) out[2] = And(ctx_, out[2], valid);
    }
    for (UOp r : u.closed()) {
      const MadeAxis& axis = made[number_.at(r.id())];
      out.insert(out.end(), axis.ranges.begin(), axis.ranges.end());
      if (u.Is(Op::REDUCE) && axis.maybe_valid) {
        const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
        const UOp otherwise = ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                                     : ctx_.Int(u.dtype(), identity.i);
        out[0] = Where(ctx_, axis.maybe_valid, out[0], otherwise);
      }
    }
    if (out.size() == 1) return out[0];
    return ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
  });
}

absl::StatusOr<UOp> ApplyOpts(ir::UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const Opt> opts) {
  OptPlan plan(ctx, sink, target);
  for (const Opt& opt : opts) UOPD_TRY(plan.Add(opt));
  return plan.Apply();
}

}  // namespace uopd::codegen
