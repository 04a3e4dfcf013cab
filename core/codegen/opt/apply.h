// SPDX-License-Identifier: MIT
// Applies a given list of opts to a kernel graph: splits its ranges and gates padded iterations.
//
// The result computes the same values. Runs after PrepareStages and before OrderLoops.
#pragma once
#include <span>

#include "core/codegen/opt/opt_plan.h"

namespace uopd::codegen {

// The kernel with every opt applied in order. Errors: see OptPlan::Add and OptPlan::Apply.
absl::StatusOr<ir::UOp> ApplyOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  std::span<const Opt> opts);

}  // namespace uopd::codegen
