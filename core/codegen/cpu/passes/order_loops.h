// SPDX-License-Identifier: MIT
// Chooses the order of the output loops of a kernel by estimated memory traffic. The loops of a
// reduction keep their order, in which it adds up: programs that compute one graph in different
// kernels add up alike.
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

}  // namespace uopd::codegen
