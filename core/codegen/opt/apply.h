// SPDX-License-Identifier: MIT
// Scheduling decisions applied to a kernel graph: ranges are split, nothing else changes.
#pragma once
#include <span>

#include "core/codegen/opt/opt_plan.h"

namespace uopd::codegen {

// The kernel with every opt applied in order; errors as those of OptPlan.
absl::StatusOr<ir::UOp> ApplyOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  std::span<const Opt> opts);

}  // namespace uopd::codegen
