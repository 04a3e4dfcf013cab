// SPDX-License-Identifier: MIT
// PrepareStages: rewrites the loops of a kernel with STAGEs. The first pass of codegen: opts count
// the axes of its result.
//
//   1. A reduction of staged values moves into the loop that stages them, if it can run there. It
//      stays apart if a staged value itself needs a reduction: that one vectorises better alone.
//   2. Loops that share a RANGE but cannot become one loop get different RANGEs, so that opts can
//      split each one separately.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// A kernel that computes the same values; sink itself if there is nothing to do. Idempotent.
ir::UOp PrepareStages(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
