// SPDX-License-Identifier: MIT
// Simplification of index and bool expressions under a condition that is known to hold.
//
// A condition bounds some expressions more tightly than their own intervals do. The expression is
// copied into a context of its own with fresh variables of the tighter bounds in their place,
// simplified there and copied back, so nothing that is learnt leaks to other uses of its nodes.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// An expression equal to e wherever `condition` holds (or fails, if !holds), with fewer ops or
// divisions; null if none was found, which is said quickly when the condition bounds nothing that
// occurs in e. Looks at at most a few hundred nodes, and not below memory accesses and reductions.
ir::UOp SimplifyGiven(ir::UOpContext& ctx, ir::UOp e, ir::UOp condition, bool holds = true);

}  // namespace uopd::rules
