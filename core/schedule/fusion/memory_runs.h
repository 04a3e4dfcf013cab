// SPDX-License-Identifier: MIT
// Which values are runs of consecutive elements of other values in memory. A copy between devices
// reads one such run.
#pragma once
#include <cstdint>
#include <utility>

#include "core/ir/context.h"

namespace uopd::schedule {

// True for a PARAM, and for the state of a whole PARAM behind an AFTER.
bool IsInMemory(ir::UOp u);

// True if the elements of the RESHAPE are at the same offsets as those of its source. Offsets are
// computed with every dimension at its largest, so rows of variable size are not adjacent: (4, n)
// and (4 * n) differ, (n, 4) and (4 * n) do not.
bool KeepsMemory(ir::UOpContext& ctx, ir::UOp reshape);

// The node that u is a run of consecutive elements of, and the first of these elements.
std::pair<ir::UOp, int64_t> RunOf(ir::UOpContext& ctx, ir::UOp u);

}  // namespace uopd::schedule
