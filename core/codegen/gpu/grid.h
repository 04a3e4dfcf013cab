// SPDX-License-Identifier: MIT
// IsGrid: decides which loops of a kernel become the blocks of a launch.
#pragma once
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {

// A loop with at least this many iterations is not repeated in each block.
inline constexpr double kLongRepeated = 64;

// Whether the iterations of the loop that is left of the axis become blocks of a launch.
bool IsGrid(const PlanView& view, size_t axis);

}  // namespace uopd::codegen
