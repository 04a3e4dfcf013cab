// SPDX-License-Identifier: MIT
// Splits loops whose index is divided by a constant.
#pragma once
#include "core/rewrite/rewriter.h"

namespace uopd::schedule {

// Where the expressions of a kernel have x / c and x % c of a range x whose size c divides, two
// nested ranges replace x. So a value that is stored in blocks (kept/packed_operand.h) is addressed
// without divisions, and codegen sees the constant strides along both ranges. x may be a term of a
// sum, if fewer long ranges are divided then: the gradient of windows with stride 2 has (x - r) / 2 for
// an element x of the image and an element r of the window. Runs before MergeRanges, whose inverse it
// is.
ir::UOp SplitRanges(ir::UOpContext& ctx, rewrite::Rewriter& simplify, ir::UOp sink);

}  // namespace uopd::schedule
