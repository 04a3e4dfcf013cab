// SPDX-License-Identifier: MIT
// Simplification of index and bool expressions under a condition that is known to hold: the branch
// of a WHERE, the index behind a gate, the other operands of an AND.
//
// A condition gives some expressions tighter bounds than BoundsOf knows. A trial (given_trial.h)
// copies the expression into a separate context with variables of the tighter bounds in place of
// these expressions, simplifies it there and copies the result back. So the facts do not affect
// other uses of the shared nodes.
//
// If the condition bounds a sum more tightly than the terms imply (an equality bounds the
// difference of its sides to 0), two further trials are made:
//   1. One term is replaced by (a variable for the whole sum) minus the other terms.
//   2. If the sum cannot take its least value, at least one term is not at its least value. Each
//      case is tried; a result common to all cases holds. The same for the greatest value.
#pragma once
#include "core/ir/context.h"

namespace uopd::rules {

// kYes: make only the trials that MaySimplify (foresight.h) and quicker tests consider useful. kNo:
// make all trials; slower, with the same result, which a test checks.
enum class Foresee { kYes, kNo };

// An expression equal to e wherever `condition` holds (fails, if !holds), with fewer ops or
// divisions; null if none was found. Fast if the condition says nothing about the nodes of e. Looks
// at a few hundred nodes at most, and not below memory accesses and reductions.
ir::UOp SimplifyGiven(ir::UOpContext& ctx, ir::UOp e, ir::UOp condition, bool holds = true,
                      Foresee foresee = Foresee::kYes);

}  // namespace uopd::rules
