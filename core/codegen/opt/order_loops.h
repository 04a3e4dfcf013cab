// SPDX-License-Identifier: MIT
// Chooses the order of the loops of a kernel: of the output loops by estimated memory traffic, of the
// loops of reductions by the gates inside of them.
//
// Runs after opts are applied: opts do not decide the order of loops, and the sizes of the loops
// depend on the opts.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// sink with the axis ids of its LOOP ranges permuted. The order with clearly fewer bytes from
// beyond a cache of `cache_bytes` wins; if bytes are about equal, the order with clearly fewer
// executed loads. Without a clear winner, and for more than four loops, the order stays as written.
// REQUIRES: sink is a result of ApplyOpts.
ir::UOp OrderLoops(ir::UOpContext& ctx, ir::UOp sink, double cache_bytes);

// sink with the axis ids of its REDUCE ranges permuted: ranges that gates depend on become the outer
// loops, so that the gates need not be computed in the innermost one. Changes only the order in
// which reductions combine their elements. A kernel with stages stays as it is.
ir::UOp OrderReductions(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
