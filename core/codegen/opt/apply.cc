// SPDX-License-Identifier: MIT
// OptPlan::Make: builds the graph of a plan.
#include "core/codegen/opt/apply.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/codegen/opt/block.h"
#include "core/codegen/opt/online/row_terms.h"
#include "core/codegen/opt/pack.h"
#include "core/codegen/opt/split_scan.h"
#include "core/codegen/passes/blocks/thread_bits.h"
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
// a copy is made outside of the loops that it does not depend on. Loops inside of a block come after
// those around it. The loop of running sums comes last: their accumulators begin anew in each iteration
// of the loops around it.
std::vector<OptPlan::MadeAxis> OptPlan::MakeAxes(int64_t& next_id) {
  std::vector<size_t> order;
  const auto packed = [&](size_t i) {
    return std::any_of(packed_.begin(), packed_.end(), [&](UOp load) { return Along(load, i); });
  };
  for (size_t i = 0; i < axes_.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const auto place = [&](size_t i) {
      const Axis& axis = axes_[i];
      return target_.blocks ? std::tuple(axis.is_scanned, !axis.HasBlock(), axis.rank)
                            : std::tuple(axis.is_scanned, !packed(i), i);
    };
    return place(a) < place(b);
  });
  std::vector<MadeAxis> out(axes_.size());
  int64_t block_id = next_id, in_blocks = 0;  // ids of the loops inside of blocks: the last ones
  for (const Axis& a : axes_) {
    block_id += a.size != a.raster ? 1 : 0;
    for (const Axis::Part& p : a.parts) {
      if (p.amount > 1) ++(p.block ? in_blocks : block_id);
    }
  }
  int64_t raster_id = block_id + in_blocks;  // after all other GLOBAL ranges
  for (const size_t number : order) {
    const Axis& a = axes_[number];
    MadeAxis& made = out[number];
    auto add = [&](UOp value, UOp size, ir::AxisType type, int64_t stride, bool in_loop = false,
                   int64_t tag = 0) {
      const UOp range =
          ctx_.Make(Op::RANGE, ir::Dtype::Index, {size},
                    ctx_.Data({(in_loop ? block_id : next_id)++, static_cast<int64_t>(type)}), tag);
      made.ranges.push_back(range);
      made.strides.push_back(stride);
      made.in_loop.push_back(in_loop);
      return IndexSum(ctx_, value, IndexProduct(ctx_, range, ctx_.Idx(stride)));
    };
    // Strides. The remaining loop advances by the product of the inner parts, an inner part by the
    // product of the parts inside of it, the outer part by everything else.
    int64_t inside = 1;
    for (const Axis::Part& p : a.parts) inside *= p.outer ? 1 : p.amount;
    const int64_t tile = inside;
    int64_t others = a.size * inside;              // what the next outer part steps over
    UOp outer = ctx_.Idx(0), inner = ctx_.Idx(0);  // the value is their sum
    if (a.raster > 1) {
      const UOp near = Range(ctx_, ctx_.Idx(a.raster), raster_id++, ir::AxisType::GLOBAL);
      made.ranges.push_back(near);
      made.strides.push_back(inside);
      made.in_loop.push_back(false);
      outer = IndexProduct(ctx_, near, ctx_.Idx(inside));
    }
    if (a.size != a.raster) {
      outer = add(outer, a.size >= 0 ? ctx_.Idx(a.size / a.raster) : a.symbolic,
                  a.is_threads     ? ir::AxisType::THREAD
                  : IsGrid(number) ? ir::AxisType::GLOBAL
                                   : a.range.axis_type(),
                  inside * a.raster, false,
                  a.range.axis_type() == ir::AxisType::LOCAL ? a.range.tag() : 0);
      if (IsStepped(a)) {
        made.maybe_blocks = made.ranges.back();
        made.ranges.pop_back();
        made.strides.pop_back();
        made.in_loop.pop_back();
      }
    }
    // The part split off last lies directly inside the loop that is left.
    for (size_t i = a.parts.size(); i-- > 0;) {
      const Axis::Part& p = a.parts[i];
      if (!p.outer) inside /= p.amount;
      if (p.amount == 1) continue;
      UOp& sum = p.outer ? outer : inner;
      sum = add(sum, ctx_.Idx(p.amount), p.type, p.outer ? others : inside, p.block);
      if (p.outer) others *= p.amount;
      if (p.mma) {
        made.maybe_mma = made.ranges.back();
        made.mma_stride = inside;
        made.ranges.pop_back();
        made.strides.pop_back();
        made.in_loop.pop_back();
      }
      if (!p.group) continue;
      made.maybe_group = made.ranges.back();
      made.ranges.pop_back();
      made.strides.pop_back();
      made.in_loop.pop_back();
    }
    const int64_t size = a.range.src(0).Is(Op::CONST) ? a.range.src(0).const_int() : 0;
    if (a.padded && !a.is_reduce && !a.is_scanned && size >= tile && !in_place_ &&
        !target_.blocks) {
      // The last tile begins earlier and computes some elements once more: no gates.
      const auto negated = [&](UOp u) { return ir::Alu(ctx_, Op::NEG, {u}); };
      outer = negated(ir::Alu(ctx_, Op::MAX, {negated(outer), ctx_.Idx(tile - size)}));
    } else if (a.padded) {
      // All lanes of a vector share one condition if the vectors divide the axis.
      UOp lanes = ctx_.Idx(0);
      for (size_t k = 0; k < made.ranges.size(); ++k) {
        const UOp r = made.ranges[k];
        const bool whole = size > 0 && made.strides[k] == 1 &&
                           r.axis_type() == ir::AxisType::VECTOR &&
                           size % r.src(0).const_int() == 0;
        if (target_.blocks && whole) lanes = ir::Alu(ctx_, Op::NEG, {r});
      }
      made.maybe_valid =
          Lt(ctx_, IndexSum(ctx_, IndexSum(ctx_, outer, inner), lanes), a.range.src(0));
    }
    made.value = IndexSum(ctx_, outer, inner);
  }
  next_id = raster_id;
  return out;
}

// Whether some slot is declared with two dtypes.
static bool DeclaresTwice(ir::UOpContext& ctx, UOp sink) {
  absl::flat_hash_map<int64_t, UOp> params;
  for (UOp u : ir::Toposort(ctx, sink)) {
    if (u.Is(Op::PARAM) && !params.emplace(u.slot(), u).second) return true;
  }
  return false;
}

std::vector<PackPart> OptPlan::PartsOf(UOp value, std::span<const MadeAxis> made,
                                       bool reduced) const {
  // A range that a STAGE inside of the value closes is no loop of the copy.
  const OpenRanges open(ctx_, value);
  std::vector<PackPart> parts;
  for (size_t i = 0; i < made.size(); ++i) {
    if (axes_[i].is_reduce && !reduced) continue;
    if (made[i].maybe_mma && open.Varies(value, made[i].maybe_mma))
      parts.push_back({made[i].maybe_mma, i, made[i].mma_stride, axes_[i].is_reduce});
    for (size_t k = 0; k < made[i].ranges.size(); ++k) {
      const UOp r = made[i].ranges[k];
      const bool around = r.axis_type() == ir::AxisType::LOOP ||
                          r.axis_type() == ir::AxisType::THREAD ||
                          r.axis_type() == ir::AxisType::GLOBAL;
      if ((!around || made[i].in_loop[k]) && open.Varies(value, r))
        parts.push_back({r, i, made[i].strides[k], axes_[i].is_reduce,
                         made[i].in_loop[k] && !axes_[i].is_reduce});
    }
  }
  return parts;
}

UOp OptPlan::MakePacked(UOp value, std::span<const MadeAxis> made, int64_t& next_id, bool in_rows) {
  std::vector<PackPart> parts = PartsOf(value, made, true);
  for (PackPart& p : parts) p.in_rows = in_rows && p.axis == group_axis_;
  if (parts.empty()) return value;
  return target_.blocks ? PackShared(ctx_, value, parts, next_id)
                        : PackValue(ctx_, value, parts, next_id);
}

UOp OptPlan::MakeBlocked(UOp reduce, UOp value, std::span<const MadeAxis> made,
                         ir::Substitution& fresh, int64_t& next_id) {
  std::vector<UOp> blocks;
  for (UOp r : reduce.closed()) {
    if (const UOp mine = made[number_.at(r.id())].maybe_blocks) blocks.push_back(mine);
  }
  if (blocks.empty()) return value;
  // The loops along which something is packed are the outer ones, as around the block (MakeAxes).
  std::vector<PackPart> parts = PartsOf(value, made, false);
  std::sort(parts.begin(), parts.end(), [](const PackPart& a, const PackPart& b) {
    return a.range.axis_id() < b.range.axis_id();
  });
  return KeepPartials(ctx_, value, reduce.reduce_op(), blocks, parts, fresh, next_id);
}

bool OptPlan::IsPacked(UOp u) const {
  return std::ranges::any_of(packed_, [&](UOp load) { return ir::Reaches(ctx_, u, load); });
}

bool OptPlan::IsTensorCore(UOp reduce) const {
  const auto closed = reduce.closed();
  return instruction_.has_value() && reduce.Is(Op::REDUCE) &&
         std::find(closed.begin(), closed.end(), axes_[group_axis_].range) != closed.end();
}

UOp OptPlan::MakeTensorCore(UOp reduce, const Factors& operands, std::span<const MadeAxis> made,
                            int64_t& next_id) {
  const Factors before = *SmallFactors(reduce);
  std::vector<UOp> ranges;
  UOp valid;
  for (UOp r : reduce.closed()) {
    const MadeAxis& axis = made[number_.at(r.id())];
    ranges.insert(ranges.end(), axis.ranges.begin(), axis.ranges.end());
    if (axis.maybe_valid) valid = valid ? And(ctx_, valid, axis.maybe_valid) : axis.maybe_valid;
  }
  const auto has_lanes = [&](UOp u) {
    for (size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].is_vector && Along(u, i)) return true;
    }
    return false;
  };
  // A load is 0 where its gate is false. Its gate covers the padding of the axes that it depends on.
  const auto gates_itself = [&](UOp u) {
    if (const auto word = WordIn(u)) u = word->load;
    if (!u.Is(Op::LOAD)) return false;
    for (UOp r : reduce.closed()) {
      const size_t axis = number_.at(r.id());
      if (made[axis].maybe_valid && !Along(u.src(0).src(1), axis)) return false;
    }
    return true;
  };
  const DotRoles roles =
      RolesOf(before.a.dtype(), before.b.dtype(), has_lanes(before.a), has_lanes(before.b));
  const auto word = [&](UOp from, UOp value, bool flips) {
    const UOp out = MakeWord(ctx_, value, made[group_axis_].maybe_group,
                             gates_itself(from) ? UOp() : valid, flips);
    const bool in_rows = !has_lanes(from) && TileInstruction(target_, *instruction_) != nullptr;
    return IsPacked(from) ? MakePacked(out, made, next_id, in_rows) : out;
  };
  const UOp first = roles.swapped ? word(before.b, operands.b, roles.flips_first)
                                  : word(before.a, operands.a, roles.flips_first);
  const UOp second = roles.swapped ? word(before.a, operands.a, roles.flips_second)
                                   : word(before.b, operands.b, roles.flips_second);
  return SumOfWords(ctx_, *instruction_, first, second, roles, ranges);
}

bool OptPlan::IsZeroInPadding(UOp u, size_t axis) const {
  // The gate of a load covers the padding of the axes that its index depends on.
  if (u.Is(Op::LOAD)) return Along(u.src(0).src(1), axis);
  if (u.Is(Op::CAST)) return IsZeroInPadding(u.src(0), axis);
  return u.Is(Op::MUL) && IsZeroInPadding(u.src(0), axis) && IsZeroInPadding(u.src(1), axis);
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
      // A gate says what it says of iterations that there are: i == j < 3 lets i be 3 where j is padded to 4.
      if (index.Is(Op::INDEX) && index.n_src() == 3) along |= Along(index.src(2), i);
      for (UOp r : index.closed()) along |= r == axes_[i].range;
      if (!along) continue;
      valid = valid ? And(ctx_, valid, made[i].maybe_valid) : made[i].maybe_valid;
    }
    return valid;
  };
  // What a STORE must ask about the ranges around it that its address does not depend on: an axis of one iteration has no
  // part in it, and its padding would store the same element once more. STORE -> condition.
  ir::Substitution in_padding;
  for (UOp u : order_) {
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
        const size_t i = number_.at(r.id());
        if (!made[i].maybe_valid || Along(s.src(0).src(1), i)) continue;
        UOp& valid = in_padding[s.id()];
        valid = valid ? And(ctx_, valid, made[i].maybe_valid) : made[i].maybe_valid;
      }
    }
  }
  const bool of_warp = instruction_ && instruction_->of_warp();
  WarpRanges warp;
  if (of_warp) {
    warp.lane =
        ctx_.Make(Op::RANGE, ir::Dtype::Index, {ctx_.Idx(instruction_->sum_place.lanes())},
                  ctx_.Data({next_id++, static_cast<int64_t>(ir::AxisType::LOCAL)}), kWarpRange);
    for (size_t bit = 0; bit < instruction_->sum_place.element.size(); ++bit)
      warp.element.push_back(Range(ctx_, ctx_.Idx(2), next_id++, ir::AxisType::UPCAST));
  }
  // The operands of TC pack their words instead of their loads.
  absl::flat_hash_set<uint32_t> in_words;
  ir::Substitution factors;      // operand -> its replacement
  ir::Substitution in_partials;  // see MakeBlocked
  std::vector<UOp> in_quads;     // STOREs of the new graph
  for (UOp u : order_) {
    if (!IsTensorCore(u)) continue;
    const Factors f = *SmallFactors(u);
    for (UOp operand : {f.a, f.b}) {
      factors[operand.id()] = UOp();
      for (UOp n : ir::Toposort(ctx_, operand)) in_words.insert(n.id());
    }
  }
  const auto make = [&](UOp u, std::span<const UOp> srcs) -> UOp {
    if (u.Is(Op::RANGE)) return made[number_.at(u.id())].value;
    if (u.Is(Op::INDEX)) {
      UOp gate = srcs.size() == 3 ? srcs[2] : UOp();
      if (const UOp valid = valid_of(u)) gate = gate ? And(ctx_, gate, valid) : valid;
      return ir::Index(ctx_, srcs[0], srcs[1], gate, u.arg().AsInt());
    }
    if (u.Is(Op::LOAD) && !in_words.contains(u.id()) &&
        std::find(packed_.begin(), packed_.end(), u) != packed_.end())
      return MakePacked(ctx_.Make(Op::LOAD, u.dtype(), srcs, u.arg(), PrefetchDistance(u)), made,
                        next_id);
    if (u.Is(Op::LOAD)) {
      if (const int64_t distance = PrefetchDistance(u); distance != 0)
        return ctx_.Make(Op::LOAD, u.dtype(), srcs, u.arg(), distance);
    }
    if (u.Is(Op::STORE)) {
      const bool streams = std::find(streamed_.begin(), streamed_.end(), u) != streamed_.end();
      const auto it = in_padding.find(u.id());
      if (!streams && it == in_padding.end()) return rules::WithIndexSources(ctx_, u, srcs);
      std::vector<UOp> out(srcs.begin(), srcs.end());
      if (it != in_padding.end()) {
        const UOp to = srcs[0];
        const UOp gate = to.n_src() == 3 ? And(ctx_, to.src(2), it->second) : it->second;
        out[0] = ir::Index(ctx_, to.src(0), to.src(1), gate, to.arg().AsInt());
      }
      return ctx_.Make(Op::STORE, u.dtype(), out, u.arg(), streams ? kStreamed : u.tag());
    }
    if (u.Is(Op::SCAN)) {
      std::vector<UOp> out = {srcs[0]};
      UOp thread;
      for (UOp r : u.scanned()) {
        for (UOp part : made[number_.at(r.id())].ranges) {
          if (part.axis_type() == ir::AxisType::THREAD) {
            thread = part;
          } else {
            out.push_back(part);
          }
        }
      }
      if (thread)
        return SplitScan(ctx_, u.reduce_op(), out[0], std::span<const UOp>(out).subspan(1), thread,
                         next_id);
      return out.size() == 1 ? out[0] : ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
    }
    if (!u.Is(ir::kClosingOps)) return rules::WithIndexSources(ctx_, u, srcs);
    if (IsTensorCore(u)) {
      const Factors f = *SmallFactors(u);
      if (of_warp)
        return MakeMma(u, {factors.at(f.a.id()), factors.at(f.b.id())}, made, warp, next_id);
      const UOp sum =
          MakeTensorCore(u, {factors.at(f.a.id()), factors.at(f.b.id())}, made, next_id);
      return MakeBlocked(u, sum, made, in_partials, next_id);
    }
    std::vector<UOp> out(srcs.begin(), srcs.begin() + static_cast<std::ptrdiff_t>(u.n_body()));
    if (u.Is(Op::STAGE)) {
      if (const UOp valid = valid_of(u)) out[2] = And(ctx_, out[2], valid);
    }
    for (UOp r : u.closed()) {
      const MadeAxis& axis = made[number_.at(r.id())];
      if (target_.blocks && axis.maybe_blocks) out.push_back(axis.maybe_blocks);
      out.insert(out.end(), axis.ranges.begin(), axis.ranges.end());
      const bool adds = u.Is(Op::REDUCE) && u.reduce_op() == Op::ADD;
      if (adds && IsZeroInPadding(u.src(0), number_.at(r.id()))) continue;
      if (u.Is(Op::REDUCE) && axis.maybe_valid) {
        const ir::Scalar identity = ReduceIdentity(u.reduce_op(), u.dtype());
        const UOp otherwise = ir::IsFloat(u.dtype()) ? ctx_.Float(u.dtype(), identity.f)
                                                     : ctx_.Int(u.dtype(), identity.i);
        out[0] = Where(ctx_, axis.maybe_valid, out[0], otherwise);
      }
    }
    if (of_warp && u.Is(Op::END)) {
      out.push_back(warp.lane);
      out.insert(out.end(), warp.element.begin(), warp.element.end());
    }
    const UOp closed =
        out.size() == 1 ? out[0] : ctx_.Make(u.op(), u.dtype(), out, u.arg(), u.tag());
    if (!u.Is(Op::REDUCE) || target_.blocks) return closed;
    return MakeBlocked(u, closed, made, in_partials, next_id);
  };
  const UOp out = Rebuild(ctx_, sink_, [&](UOp u, std::span<const UOp> srcs) {
    const UOp node = make(u, srcs);
    if (const auto it = factors.find(u.id()); it != factors.end()) it->second = node;
    if (of_warp && StoresInQuads(u)) in_quads.push_back(node);
    return node;
  });
  if (!of_warp) return out;
  const UOp placed = PlaceResults(out, made, warp, in_quads);
  if (!loads_words_ || !DeclaresTwice(ctx_, placed)) return placed;
  loads_words_ = false;
  return Make();
}

absl::StatusOr<UOp> ApplyOpts(ir::UOpContext& ctx, UOp sink, const Target& target,
                              std::span<const Opt> opts) {
  OptPlan plan(ctx, sink, target);
  for (const Opt& opt : opts) UOPD_TRY(plan.Add(opt));
  return plan.Apply();
}

}  // namespace uopd::codegen
