// SPDX-License-Identifier: MIT
// The rules of ops for matrices, copies and roles (docs/ir_linear.md). The verifier (spec.h) calls
// them; each part is in a file of its own.
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"
#include "core/ir/uop.h"

namespace uopd::ir {

// The rules of WMMA and WMMA_BLOCK.
//
// INVALID_ARGUMENT for dtypes or numbers that the op does not take. REQUIRES: u has as many sources
// as its op takes.
absl::Status VerifyMma(UOp u);
absl::Status VerifyMatrixLoad(UOp u);
absl::Status VerifyAsyncCopy(UOp u);
absl::Status VerifyWmma(UOp u);
absl::Status VerifyWmmaBlock(UOp u);

// The rules of BULK_INIT, BULK_EXPECT, BULK_COPY, BULK_WAIT and BULK_ARRIVE.
//
// INVALID_ARGUMENT for sources or numbers that the op does not take. REQUIRES: u has as many
// sources as its op takes.
absl::Status VerifyBulk(UOp u);

// INVALID_ARGUMENT if the lines of a LINEAR with BULK_COPYs are in a wrong order:
//   - barriers are used without a BULK_INIT, which is in no loop, and then a BARRIER;
//   - an array that copies fill is filled in another way too, or by copies with barriers of two
//     arrays;
//   - an array that copies fill is read without a BULK_WAIT before it. In an iteration of a loop
//     that has a copy to the array, or a wait for one, the wait is in the same iteration;
//   - barriers are accessed by a LOAD, STORE or copy;
//   - a loop may end the kernel (it polls) while copies run.
// Whether the phases are right depends on values: the interpreter checks them (core/interp).
// `maybe_culprit`: the line.
absl::Status VerifyBulkOrder(UOp linear, UOp* maybe_culprit);

// The rules of GROUP_PRODUCT, GROUP_MMA and the lines around them.
//
// INVALID_ARGUMENT for dtypes or numbers that the op does not take. REQUIRES: u has as many sources
// as its op takes.
absl::Status VerifyGroupProduct(UOp u);
absl::Status VerifyGroupMma(UOp u);
// Of an MMA_BEGIN or MMA_WAIT.
absl::Status VerifyAccumulators(UOp u);

// INVALID_ARGUMENT if the lines of a LINEAR with GROUP_MMAs are in a wrong order:
//   - an accumulator is loaded or stored while a GROUP_MMA may still change it, also when the
//     kernel ends;
//   - a GROUP_MMA changes an accumulator without an MMA_BEGIN after what was stored there before;
//   - a GROUP_MMA reads an array that threads stored to, or waited for copies to, without a
//     SHARED_FENCE and then a BARRIER in between.
// `maybe_culprit`: the line. Loops are walked twice, so that an iteration meets the next one.
absl::Status VerifyGroupOrder(UOp linear, UOp* maybe_culprit);

// The rules of ROLE and ROLE_END, and of what the threads of different roles tell each other
//.
//
// INVALID_ARGUMENT for sources or numbers that the op does not take.
absl::Status VerifyRole(UOp u);

// INVALID_ARGUMENT if the lines of a LINEAR are in a wrong order:
//   - roles are in a loop, other lines stand between them or behind them, or their threads are not
//     those of the block;
//   - their registers are more than the pool, or only some of them take a number of registers;
//   - a line of a role needs a value of another role;
//   - a role has a BARRIER, stores to shared arrays, makes barriers, copies by ASYNC_COPY, or
//     polls;
//   - threads of a role exchange values that have no whole warps or groups;
//   - the phases of a barrier get more or fewer arrivals than its BULK_INIT says. The gate of an
//     arrival is a conjunction; the terms with the thread's number say which threads arrive, the
//     others are the same for all;
//   - in a role, BULK_COPYs that follow a BULK_EXPECT have other bytes than it says;
//   - in a role, a BULK_COPY in a loop has no BULK_WAIT before it in the same iteration, for a
//     barrier at the same place that another role arrives at: it would fill what is still read;
//   - a BULK_ARRIVE follows a GROUP_MMA without an MMA_WAIT between them.
// `maybe_culprit`: the line.
absl::Status VerifyRoles(UOp linear, UOp* maybe_culprit);

}  // namespace uopd::ir
