// SPDX-License-Identifier: MIT
// What the copies of a pipeline are in another step of the loop (pipeline.h), and how a target
// without copies that run on their own keeps that step in registers.
#pragma once
#include "absl/container/flat_hash_map.h"
#include "core/codegen/gpu/passes/pipeline/line_list.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_loop.h"

namespace uopd::codegen {

// LOADs of the loop -> what stands for them.
using StepLoads = absl::flat_hash_map<uint32_t, ir::UOp>;

// u in step `step` of the loop, with what `loaded` has for its LOADs.
ir::UOp InStep(ir::UOpContext& ctx, ir::UOp u, ir::UOp range, ir::UOp step,
               const StepLoads& loaded = {});
// The gate of an INDEX in a step of the loop; null: the INDEX has no gate.
ir::UOp MaybeGateInStep(ir::UOpContext& ctx, ir::UOp index, ir::UOp range, ir::UOp step);

// Adds loads of what the copies of a step need to `out`; 0 where there is no such step.
StepLoads FetchStep(ir::UOpContext& ctx, const PipelineLoop& loop, ir::UOp step, LineList& out);
// Adds stores of what is computed from the loads. Behind the last step nothing reads it.
void DepositStep(ir::UOpContext& ctx, const PipelineLoop& loop, ir::UOp step,
                 const StepLoads& loaded, LineList& out);

}  // namespace uopd::codegen
