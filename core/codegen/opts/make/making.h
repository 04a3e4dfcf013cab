// SPDX-License-Identifier: MIT
// Making: a kernel that is being built from a plan (make_kernel.cc), for those that build parts of
// it.
#pragma once
#include <vector>

#include "core/codegen/opts/make/pack_value.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {

// What became of an axis of the plan.
struct MadeAxis {
  ir::UOp value;                 // replaces the RANGE of the axis
  ir::UOp maybe_valid;           // false in the padding; null: there is no padding
  std::vector<ir::UOp> ranges;   // without those below
  std::vector<int64_t> strides;  // of the ranges
  std::vector<bool> in_loop;     // of the ranges: a loop over tiles inside of a panel
  ir::UOp maybe_group;           // the part whose elements share words, of the axis of TC
  ir::UOp maybe_panels;          // the loop over panels of a reduced axis
  ir::UOp
      maybe_mma;  // stands for the place along the axis inside of a matrix instruction of a warp
  int64_t mma_stride = 1;
};

// The RANGEs of the lanes of a warp, and of the bits of the number of a result in its lane, lowest
// first.
struct WarpRanges {
  ir::UOp lane;
  std::vector<ir::UOp> element;
};

// `maybe_valid`, and that the iteration of the axis is no padding; null: both say nothing.
ir::UOp AndValid(ir::UOpContext& ctx, ir::UOp maybe_valid, const MadeAxis& axis);

struct Making {
  PlanView plan;
  bool loads_words = true;  // operands are read as words where they lie so in memory (word_load.h)
  std::vector<MadeAxis> axes;
  WarpRanges warp;      // of a TC by an instruction of a warp
  int64_t next_id = 0;  // the first free axis id

  ir::UOpContext& ctx() const { return plan.ctx; }
  const PlanState& state() const { return plan.state; }
  const PlanKernel& kernel() const { return plan.kernel(); }
  // What became of the axis of a RANGE of the plan's kernel.
  const MadeAxis& AxisOf(ir::UOp range) const { return axes[kernel().AxisOf(range)]; }
};

// In make_axes.cc.
std::vector<MadeAxis> MakeAxes(const PlanView& plan, int64_t& next_id);

// The RANGEs of a panel that `value` depends on, with the parts of reduced axes if `reduced`.
std::vector<PackPart> PartsOf(const Making& making, ir::UOp value, bool reduced);
// The value from a copy (PACK). `in_rows`: in the order of the rows of a matrix
// (PackPart::in_rows).
ir::UOp MakePacked(Making& making, ir::UOp value, bool in_rows = false);
// Whether a load of u is packed.
bool IsPacked(const PlanView& plan, ir::UOp u);
// Whether each iteration of the loop that is left of the axis stages operands anew: of BLOCK, and
// of every reduced axis of a sum whose instruction reads shared memory.
bool IsStepped(const PlanState& state, const PlanAxis& axis);

}  // namespace uopd::codegen
