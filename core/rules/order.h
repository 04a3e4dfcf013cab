// SPDX-License-Identifier: MIT
// A total order of scalar expressions that depends on structure alone, for canonical operand order.
#pragma once
#include "core/ir/uop.h"

namespace uopd::rules {

// Negative, zero (only for the same node) or positive. Op order first (ops.def), so constants sort
// last; then arg, dtype and sources. Looks at most a few levels deep; ties that deep are broken by
// creation order, which is deterministic too.
int Compare(ir::UOp a, ir::UOp b);

}  // namespace uopd::rules
