// SPDX-License-Identifier: MIT
// OptPlan: a list of opts for one kernel that grows opt by opt.
//
// Add checks an opt against the kernel and the opts before it, by the row of its kind; Apply builds
// the resulting kernel (make/make_kernel.h). For a kernel without stages Add does not build the
// kernel, so the heuristic can try many opts.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/opts/opt.h"
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {

// Not thread-safe. The context and the target must outlive the plan.
class OptPlan {
 public:
  OptPlan(ir::UOpContext& ctx, ir::UOp sink, const Target& target);

  // Appends an opt. INVALID_ARGUMENT, and no change of the plan, if
  //   - the opt does not fit the machine, what it names, or the opts before it;
  //   - a value would depend on two vectorised axes (a value has only one lane dimension);
  //   - the copies of staged or packed values would take too much memory.
  absl::Status Add(const Opt& opt);
  void Clear();
  const std::vector<Opt>& opts() const { return opts_; }

  // The kernel that the other opts change: after ONLINE and MERGE.
  ir::UOp kernel() const { return state_.kernel->sink; }
  // The number of axes.
  size_t axes() const { return state_.axes.size(); }
  // Whether the axis is reduced and has n iterations left.
  bool IsStep(size_t axis, int64_t n) const {
    return state_.axes[axis].is_reduce && state_.axes[axis].size == n;
  }
  // The instruction of the TC among the opts, one of RowInstructions, or null.
  const MatrixInstruction* maybe_instruction() const { return state_.instruction.get(); }
  // The axes of the rows and of the columns that an instruction of a warp computes. REQUIRES:
  // maybe_instruction() is one.
  size_t rows_axis() const { return state_.rows_axis; }
  size_t columns_axis() const { return state_.columns_axis; }
  // What TC made of a kernel with ONLINE. REQUIRES: the opts begin with both.
  const WarpRowsSize& warp_rows_size() const { return *state_.warp_rows; }
  // Bytes of the arrays that a block shares, on a target with blocks: one part of a PIPELINE.
  // Builds the kernel.
  int64_t SharedBytes();

  // The kernel with every opt applied in order. Ranges of one iteration are replaced by 0, and axis
  // ids are renumbered without gaps. An amount that does not divide its axis pads it: the last
  // tile of an output axis overlaps the one before it. Where it must not (the axis is shorter than
  // a tile or has a symbolic size, or the kernel loads what it stores), and for reduced axes,
  // accesses in the padding are gated, and reductions see their identity element.
  // RESOURCE_EXHAUSTED if the kernel needs too much staged memory even without opts.
  absl::StatusOr<ir::UOp> Apply();

 private:
  // Whether what the opt names is there.
  absl::Status CheckOperands(const Opt& opt) const;
  // Why the lanes of vectors do not suit a value; else empty.
  std::string WrongLanes() const;
  // Why the stages of the built kernel, or its block, do not fit; else empty.
  std::string TooLarge(ir::UOp made) const;
  bool IsStaged() const;
  ir::UOp Make() const;

  ir::UOpContext& ctx_;
  const Target& target_;
  const std::shared_ptr<const PlanKernel> given_;  // before ONLINE and MERGE
  PlanState state_;
  std::vector<Opt> opts_;
};

// The kernel with the opts. Errors: those of OptPlan::Add and OptPlan::Apply.
absl::StatusOr<ir::UOp> ApplyOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  std::span<const Opt> opts);

}  // namespace uopd::codegen
