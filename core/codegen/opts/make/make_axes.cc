// SPDX-License-Identifier: MIT
// MakeAxes: the RANGEs that an axis of a plan becomes, their order, and its value as a function of
// them.
//
// Axis ids decide the order of the loops. Loops around packed loads come before the others, so that
// a copy is made outside of the loops that it does not depend on. Loops inside of a panel come
// after those around it. The loop of running sums comes last: their accumulators begin anew in each
// iteration of the loops around it. GLOBAL ranges of RASTER come after all others.
#include <algorithm>
#include <utility>

#include "core/codegen/machine.h"
#include "core/codegen/opts/make/making.h"
#include "core/ir/build.h"
#include "core/rules/index_expr.h"

namespace uopd::codegen {
namespace {

using ir::AxisType;
using ir::Op;
using ir::UOp;
using rules::IndexProduct;
using rules::IndexSum;

// The numbers of the axes, those of the outer loops first.
std::vector<size_t> LoopOrder(const PlanView& plan) {
  const std::vector<PlanAxis>& axes = plan.state.axes;
  const Machine& machine = MachineOf(plan.target);
  const auto place = [&](size_t i) {
    return std::pair(axes[i].is_scanned, machine.loop_place(plan, i));
  };
  std::vector<size_t> out;
  for (size_t i = 0; i < axes.size(); ++i) out.push_back(i);
  std::ranges::sort(out, std::less<>(), place);
  return out;
}

// The first free axis id of each kind of loop, outermost first.
struct AxisIds {
  int64_t around, inside, raster;

  AxisIds(const std::vector<PlanAxis>& axes, int64_t first) : around(first), inside(first) {
    int64_t in_panels = 0;
    for (const PlanAxis& a : axes) {
      inside += a.size != a.raster ? 1 : 0;
      for (const PlanAxis::Part& p : a.parts) {
        if (p.amount > 1) ++(p.in_panel ? in_panels : inside);
      }
    }
    raster = inside + in_panels;
  }
};

class AxisMaker {
 public:
  AxisMaker(const PlanView& plan, AxisIds& ids, size_t number)
      : plan_(plan),
        machine_(MachineOf(plan.target)),
        ctx_(plan.ctx),
        ids_(ids),
        number_(number),
        axis_(plan.state.axes[number]) {
    for (const PlanAxis::Part& p : axis_.parts) tile_ *= p.outer ? 1 : p.amount;
  }

  MadeAxis Make() {
    outer_ = inner_ = ctx_.Idx(0);
    MakeLoops();
    MakeParts();
    if (axis_.padded) MakePadding();
    made_.value = IndexSum(ctx_, outer_, inner_);
    return std::move(made_);
  }

 private:
  // Adds a RANGE to the ranges and to a sum, `stride` places of the axis apart.
  void Add(UOp& sum, UOp range, int64_t stride, bool in_loop = false) {
    made_.ranges.push_back(range);
    made_.strides.push_back(stride);
    made_.in_loop.push_back(in_loop);
    sum = IndexSum(ctx_, sum, IndexProduct(ctx_, range, ctx_.Idx(stride)));
  }
  // Takes the last RANGE out of the ranges.
  UOp TakeRange() {
    const UOp out = made_.ranges.back();
    made_.ranges.pop_back();
    made_.strides.pop_back();
    made_.in_loop.pop_back();
    return out;
  }
  UOp NewRange(UOp size, int64_t& id, AxisType type, int64_t tag = 0) {
    return ctx_.Make(Op::RANGE, ir::Dtype::Index, {size},
                     ctx_.Data({id++, static_cast<int64_t>(type)}), tag);
  }

  // The loop that is left, which advances by a tile, and before it neighbouring blocks (RASTER).
  void MakeLoops() {
    if (axis_.raster > 1)
      Add(outer_, Range(ctx_, ctx_.Idx(axis_.raster), ids_.raster++, AxisType::GLOBAL), tile_);
    if (axis_.size == axis_.raster) return;
    const UOp size = axis_.size >= 0 ? ctx_.Idx(axis_.size / axis_.raster) : axis_.symbolic;
    const AxisType own = axis_.range.axis_type();
    const AxisType type = axis_.is_threads                   ? AxisType::THREAD
                          : machine_.is_grid(plan_, number_) ? AxisType::GLOBAL
                                                             : own;
    const int64_t tag = own == AxisType::LOCAL ? axis_.range.tag() : 0;
    Add(outer_, NewRange(size, ids_.around, type, tag), tile_ * axis_.raster);
    if (IsStepped(plan_.state, axis_)) made_.maybe_panels = TakeRange();
  }

  // The part split off last lies directly inside of the loop that is left. An inner part advances
  // by the product of the parts inside of it, an outer part by everything else.
  void MakeParts() {
    int64_t inside = tile_;
    int64_t others = axis_.size * tile_;  // what the next outer part steps over
    for (size_t i = axis_.parts.size(); i-- > 0;) {
      const PlanAxis::Part& p = axis_.parts[i];
      if (!p.outer) inside /= p.amount;
      if (p.amount == 1) continue;
      const UOp range =
          NewRange(ctx_.Idx(p.amount), p.in_panel ? ids_.inside : ids_.around, p.type);
      Add(p.outer ? outer_ : inner_, range, p.outer ? others : inside, p.in_panel);
      if (p.outer) others *= p.amount;
      if (p.mma) {
        made_.maybe_mma = TakeRange();
        made_.mma_stride = inside;
      }
      if (p.group) made_.maybe_group = TakeRange();
    }
  }

  void MakePadding() {
    const int64_t size = axis_.range.src(0).Is(Op::CONST) ? axis_.range.src(0).const_int() : 0;
    const auto negated = [&](UOp u) { return ir::Alu(ctx_, Op::NEG, {u}); };
    if (!axis_.is_reduce && !axis_.is_scanned && size >= tile_ && !plan_.kernel().in_place &&
        machine_.overlaps_tiles) {
      // The last tile begins earlier and computes some elements once more: no gates.
      outer_ = negated(ir::Alu(ctx_, Op::MAX, {negated(outer_), ctx_.Idx(tile_ - size)}));
      return;
    }
    // All lanes of a vector share one condition if the vectors divide the axis.
    UOp lanes = ctx_.Idx(0);
    for (size_t k = 0; k < made_.ranges.size(); ++k) {
      const UOp r = made_.ranges[k];
      const bool whole = size > 0 && made_.strides[k] == 1 && r.axis_type() == AxisType::VECTOR &&
                         size % r.src(0).const_int() == 0;
      if (machine_.shares_gates && whole) lanes = negated(r);
    }
    made_.maybe_valid =
        Lt(ctx_, IndexSum(ctx_, IndexSum(ctx_, outer_, inner_), lanes), axis_.range.src(0));
  }

  const PlanView& plan_;
  const Machine& machine_;
  ir::UOpContext& ctx_;
  AxisIds& ids_;
  const size_t number_;
  const PlanAxis& axis_;
  int64_t tile_ = 1;   // what the inner parts compute together
  UOp outer_, inner_;  // the value is their sum
  MadeAxis made_;
};

}  // namespace

std::vector<MadeAxis> MakeAxes(const PlanView& plan, int64_t& next_id) {
  AxisIds ids(plan.state.axes, next_id);
  std::vector<MadeAxis> out(plan.state.axes.size());
  for (const size_t number : LoopOrder(plan)) out[number] = AxisMaker(plan, ids, number).Make();
  next_id = ids.raster;
  return out;
}

}  // namespace uopd::codegen
