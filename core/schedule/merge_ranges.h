// SPDX-License-Identifier: MIT
// Loops over several ranges that are as well one loop over their product.
#pragma once
#include "core/rewrite/rewriter.h"

namespace uopd::schedule {

// The kernel with ranges that are closed side by side merged as long as no index gets harder.
ir::UOp MergeRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

}  // namespace uopd::schedule
