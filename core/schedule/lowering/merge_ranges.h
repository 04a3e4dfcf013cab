// SPDX-License-Identifier: MIT
// Merges nested loops of a kernel into one loop over the product of their sizes. Last rewrite of a
// kernel graph; part of Lowering::Finish (lowering.h).
#pragma once
#include "core/rewrite/rewriter.h"

namespace uopd::schedule {

// Merges two ranges if the same node closes them side by side and if neither the indices nor the
// whole kernel need more divisions afterwards.
ir::UOp MergeRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

}  // namespace uopd::schedule
