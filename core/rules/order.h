// SPDX-License-Identifier: MIT
// A total order of scalar expressions by structure, for canonical operand order.
//
// The rule algebra.order and the normal form of sums (terms.h) use it. Never depends on addresses.
#pragma once
#include "core/ir/uop.h"

namespace uopd::rules {

// Negative, zero (only for the same node) or positive. Compares ops in the order of ops.def, so
// constants sort last; then arg, dtype and sources, a few levels deep. Nodes that are equal so far
// compare by creation order, which is deterministic too.
int Compare(ir::UOp a, ir::UOp b);

}  // namespace uopd::rules
