// SPDX-License-Identifier: MIT
// MakeKernel: builds the kernel that a plan describes, in one rebuild of its graph.
#pragma once
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {

// Thread-safe for different contexts.
ir::UOp MakeKernel(const PlanView& plan);

}  // namespace uopd::codegen
