// SPDX-License-Identifier: MIT
// The rules of BULK_INIT, BULK_EXPECT, BULK_COPY, BULK_WAIT and BULK_ARRIVE (docs/ir_linear.md).
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

// INVALID_ARGUMENT for sources or numbers that the op does not take. REQUIRES: u has as many sources as its op takes.
absl::Status VerifyBulk(UOp u);

// INVALID_ARGUMENT if the lines of a LINEAR with BULK_COPYs are in a wrong order:
//   - barriers are used without a BULK_INIT, which is in no loop, and then a BARRIER;
//   - an array that copies fill is filled in another way too, or by copies with barriers of two arrays;
//   - an array that copies fill is read without a BULK_WAIT before it. In an iteration of a loop that has a copy to
//     the array, or a wait for one, the wait is in the same iteration;
//   - barriers are accessed by a LOAD, STORE or copy;
//   - a loop may end the kernel (it polls) while copies run.
// Whether the phases are right depends on values: the interpreter checks them (core/interp).
// `maybe_culprit`: the line.
absl::Status VerifyBulkOrder(UOp linear, UOp* maybe_culprit);

}  // namespace uopd::ir
