// SPDX-License-Identifier: MIT
// Reductions of one kernel that can run in one loop.
#pragma once
#include "core/rewrite/rewriter.h"

namespace uopd::schedule {

// The kernel with reductions of equal sizes inside of the same loops, none of which needs the
// result of another, over the same ranges: what they load in common is then loaded once.
ir::UOp ShareRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

}  // namespace uopd::schedule
