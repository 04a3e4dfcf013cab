// SPDX-License-Identifier: MIT
// Loop fusion inside of one kernel: lets reductions share their loops. Runs on every kernel graph
// after simplification; part of lowering (lowering.h).
#pragma once
#include "core/rewrite/rewriter.h"

namespace uopd::schedule {

// Gives the same ranges to reductions, and to staged values, that have equal sizes, are inside of
// the same loops and do not depend on each other. Loads that they have in common then happen once.
ir::UOp ShareRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

}  // namespace uopd::schedule
