// SPDX-License-Identifier: MIT
// Rewrites of the ranges of a kernel, in the order in which lowering (lowering.h) does them.
#pragma once
#include "core/rewrite/rewriter.h"

namespace uopd::schedule {

// Loop fusion inside of one kernel: lets reductions share their loops. Runs on every kernel graph
// after simplification; part of lowering (lowering.h).
//
// Gives the same ranges to reductions, and to staged values, that have equal sizes, are inside of
// the same loops and do not depend on each other. Loads that they have in common then happen once.
ir::UOp ShareRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

// Splits loops whose index is divided by a constant.
//
// Where the expressions of a kernel have x / c and x % c of a range x whose size c divides, two
// nested ranges replace x. So a value that is stored in blocks (kept/packed_operand.h) is addressed
// without divisions, and codegen sees the constant strides along both ranges. x may be a term of a
// sum, if fewer long ranges are divided then: the gradient of windows with stride 2 has (x - r) / 2
// for an element x of the image and an element r of the window. Runs before MergeRanges, whose
// inverse it is.
ir::UOp SplitRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

// Merges nested loops of a kernel into one loop over the product of their sizes. Last rewrite of a
// kernel graph; part of Lowering::Finish (lowering.h).
//
// Merges two ranges if the same node closes them side by side and if neither the indices nor the
// whole kernel need more divisions afterwards.
ir::UOp MergeRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

}  // namespace uopd::schedule
