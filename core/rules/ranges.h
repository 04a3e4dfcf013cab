// SPDX-License-Identifier: MIT
// TidyRanges: adapts the ranges of a kernel to its accesses. The scheduler calls it for every
// kernel.
#pragma once
#include "core/ir/context.h"
#include "core/rewrite/rewriter.h"

namespace uopd::rules {

// Shrinks a range r if its gate shows that only the steps [lo, hi) do anything: a sum that adds 0
// elsewhere, a STAGE or a STORE that is gated off elsewhere. Splits a range r where r / c or r % c
// occurs: r becomes outer * c + inner if c divides the size, neither part is tiny, and fewer
// divisions are left. Repeats both until nothing changes.
//
// Returns the sink simplified by `simplify`; new ranges have axis ids from `next_id` up. REQUIRES:
// sink is a simplified kernel in the context of `simplify`.
ir::UOp TidyRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink, int64_t next_id);

}  // namespace uopd::rules
