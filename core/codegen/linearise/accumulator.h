// SPDX-License-Identifier: MIT
// The accumulator of a REDUCE or SCAN: a register, or the lanes of a vector.
//
// Invariant: an accumulator is set up right outside of the outermost loop that changes it.
#pragma once
#include "core/codegen/linearise/lineariser.h"

namespace uopd::codegen {

struct Accumulator {
  ir::UOp reduce, buffer, init;
  int64_t lanes;
};

// Appends the accumulator of u to the scope, with `maybe_start` in it, a line of the scope or of a
// scope around; null: the identity element.
Accumulator MakeAccumulator(Lineariser& l, ir::UOp u, ir::UOp maybe_start, Scope& scope);

// The identity element of the reduction or running sum u.
ir::UOp IdentityOf(ir::UOpContext& ctx, ir::UOp u);

}  // namespace uopd::codegen
