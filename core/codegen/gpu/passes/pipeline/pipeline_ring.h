// SPDX-License-Identifier: MIT
// PipelineRing: the arrays of a pipeline whose copies run on their own (pipeline.h). Each array has
// several parts, which the steps of the loop take in turns.
//
// Invariants:
//   - Step s uses part s % parts of every array.
//   - An array is made before lines copy to it, and the parts of a step begin before lines read
//     them.
//
// Not thread-safe. The context, the loop and the plan must outlive it.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "core/codegen/gpu/passes/pipeline/line_list.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_plan.h"

namespace uopd::codegen {

class PipelineRing {
 public:
  PipelineRing(ir::UOpContext& ctx, const PipelineLoop& loop, const PipelinePlan& plan)
      : ctx_(ctx), loop_(loop), plan_(plan) {}

  // The array with all parts.
  ir::UOp Make(const PipelineArray& array);
  // Adds where the parts of this step begin to `out`. Returns their number.
  ir::UOp BeginParts(ir::UOp step, LineList& out);
  // Where the part of this step begins in the array; null in front of the loop.
  ir::UOp MaybePart(const PipelineArray& array) const;

  // Adds the copies of a step, which is a constant or an expression; none where there is no such
  // step.
  void CopyStep(ir::UOp step, LineList& out);
  // Adds copies of the boxes of a step to the part with that number, if the gate is true; null: it
  // is.
  void CopyBoxes(ir::UOp step, ir::UOp part, ir::UOp maybe_gate, LineList& out);

  // The number of the part of a step.
  ir::UOp PartOf(ir::UOp step);
  // How often the ring was filled before the step.
  ir::UOp TurnOf(ir::UOp step);

 private:
  struct Made {
    ir::UOp array;  // with all parts
    ir::UOp part;   // where the part of this step begins; null in front of the loop
  };

  void CopyWords(ir::UOp step, ir::UOp part, ir::UOp maybe_gate, LineList& out);
  // Where a part of the array begins.
  ir::UOp BeginOf(ir::UOp part, const PipelineArray& array);

  ir::UOpContext& ctx_;
  const PipelineLoop& loop_;
  const PipelinePlan& plan_;
  absl::flat_hash_map<uint32_t, Made> made_;  // of PipelineArray::buffer
};

}  // namespace uopd::codegen
