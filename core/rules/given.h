// SPDX-License-Identifier: MIT
// Simplification of index and bool expressions under a condition that is known to hold.
//
// A condition bounds some expressions more tightly than their own intervals do. The expression is
// copied into a context of its own with fresh variables of the tighter bounds in their place,
// simplified there and copied back, so nothing that is learnt leaks to other uses of its nodes.
//
// Of a sum that is bounded more tightly than its terms (an equality bounds the difference of its
// sides) two things follow. One of its terms is what the sum and the others say; so it is put in
// terms of a variable for the whole. And if the sum is not the least that it could be, one of its
// terms is not; so what follows from each of these cases alike follows. The same for the greatest.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// Whether to try only what MaySimplify (foresight.h) and quicker tests say may help. kNo costs more
// and finds nothing more, which a test checks.
enum class Foresee { kYes, kNo };

// An expression equal to e wherever `condition` holds (or fails, if !holds), with fewer ops or
// divisions; null if none was found, which is said quickly when the condition bounds nothing that
// occurs in e. Looks at at most a few hundred nodes, and not below memory accesses and reductions.
ir::UOp SimplifyGiven(ir::UOpContext& ctx, ir::UOp e, ir::UOp condition, bool holds = true,
                      Foresee foresee = Foresee::kYes);

}  // namespace uopd::rules
