// SPDX-License-Identifier: MIT
// How the copies of a pipeline are done (pipeline.h): how many steps ahead, by boxes or word by
// word, and by which warps.
//
// Invariants: there are boxes only if all arrays consist of some, and roles only if there are
// boxes.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "core/codegen/gpu/passes/pipeline/bulk_plan.h"
#include "core/codegen/gpu/passes/pipeline/pipeline.h"
#include "core/codegen/gpu/passes/pipeline/pipeline_loop.h"
#include "core/codegen/gpu/passes/pipeline/role_plan.h"

namespace uopd::codegen {

// One thread copies all boxes of a step.
struct PipelineBoxes {
  std::vector<BulkPlan> plans;  // of the arrays, in their order
  int64_t bytes = 0;            // of a step
  ir::UOp thread;               // the number of the thread, of dtype index
  ir::UOp first_thread;         // whether this is the thread that begins the copies
  ir::UOp filled, free;         // one barrier of each for each part: it is filled; it may be filled
};

// The last warps of the block copy, and no other thread does.
struct PipelineRoles {
  RolePlan plan;
  ir::UOp thread;          // the number of the thread among all, instead of PipelineBoxes::thread
  int64_t warp_lanes = 0;  // as in PipelineWay
  int64_t warps = 0;       // that compute
};

struct PipelinePlan {
  bool own = false;            // the copies run on their own
  int64_t parts = 1;           // of an array
  int64_t ahead = 0;           // steps that are copied before the loop, without roles
  bool groups_run_on = false;  // products of groups run on while the next step begins
  std::optional<PipelineBoxes> boxes;
  std::optional<PipelineRoles> roles;
};

// The plan for the loop of the kernel with these lines.
PipelinePlan PlanPipeline(ir::UOpContext& ctx, std::span<const ir::UOp> lines,
                          const PipelineLoop& loop, const PipelineWay& way);

}  // namespace uopd::codegen
