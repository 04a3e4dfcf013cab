// SPDX-License-Identifier: MIT
// How a loop begins whose copies run on their own, for each way to copy (pipeline.h shows the lines
// of each).
//
// Each function adds the lines in front of the loop, the RANGE of the loop, and what a step does
// before it computes.
#pragma once
#include "core/codegen/gpu/passes/pipeline_ring.h"

namespace uopd::codegen {

// What the functions write to and what they know.
struct PipelineBegin {
  ir::UOpContext& ctx;
  const PipelineLoop& loop;
  const PipelinePlan& plan;
  PipelineRing& ring;
  LineList& out;
};

// All threads copy, word by word.
void BeginWordLoop(const PipelineBegin& begin);
// One thread that also computes copies boxes.
void BeginBoxLoop(const PipelineBegin& begin);
// Warps of their own copy boxes. Takes the lines in front of the loop from `begin.out`, which has
// those of the warps that compute afterwards. Returns all other lines.
RoleLines BeginRoleLoop(const PipelineBegin& begin);
// For warps that compute while others copy, behind the wait for the products of the step before:
// the part of that step may be filled again.
void FreePartBefore(const PipelineBegin& begin);

}  // namespace uopd::codegen
