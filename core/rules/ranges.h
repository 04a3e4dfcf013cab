// SPDX-License-Identifier: MIT
// Loops of a kernel that fit what they do: shorter where a gate leaves most of their steps out, two
// where the index takes one apart.
#pragma once
#include "core/ir/context.h"
#include "core/rewrite/rewriter.h"

namespace uopd::rules {

// Shrinks ranges: a REDUCE that adds zero outside of [lo, hi) of one of its ranges runs over hi -
// lo steps; an END whose STORE is gated by r < c runs over c steps. Then splits ranges: where r / c
// or r % c occurs, c divides the size and neither part is tiny, r becomes outer * c + inner if that
// leaves fewer divisions. The sink comes back simplified by `simplify`; new ranges have ids from
// `next_id` up. REQUIRES: sink is a simplified kernel in the context of `simplify`.
ir::UOp TidyRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink, int64_t next_id);

}  // namespace uopd::rules
