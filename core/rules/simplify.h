// SPDX-License-Identifier: MIT
// The symbolic engine's entry: index, boolean and constant simplification of a whole graph.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// root rewritten to a fixed point with the symbolic rules; equal in value for every assignment of
// ranges, variables and memory. Never changes a float result (IEEE, NaN and signed zeros included),
// unless fast_math allows what holds for real numbers only (fast_math.cc).
ir::UOp Simplify(ir::UOpContext& ctx, ir::UOp root, bool fast_math = false);

}  // namespace uopd::rules
