// SPDX-License-Identifier: MIT
// Simplify: the entry of the symbolic engine. Simplifies index, bool and constant arithmetic of a
// whole graph. Codegen calls it between its passes; the scheduler applies the same rules with
// Rewriters of its own.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// root rewritten with the symbolic rules until nothing changes. The result has the same value for
// every assignment of ranges, variables and memory. Elementwise float results are bit for bit the
// same, NaN and signed zeros included; a float sum may be rounded differently (collapse.h).
// fast_math also allows identities that hold for real numbers only (fast_math.cc).
ir::UOp Simplify(ir::UOpContext& ctx, ir::UOp root, bool fast_math = false);

}  // namespace uopd::rules
