// SPDX-License-Identifier: MIT
// The rules of ROLE and ROLE_END, and of what the threads of different roles tell each other (docs/ir_linear.md).
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::ir {

// INVALID_ARGUMENT for sources or numbers that the op does not take.
absl::Status VerifyRole(UOp u);

// INVALID_ARGUMENT if the lines of a LINEAR are in a wrong order:
//   - roles are in a loop, other lines stand between them or behind them, or their threads are not those of the block;
//   - their registers are more than the pool, or only some of them take a number of registers;
//   - a line of a role needs a value of another role;
//   - a role has a BARRIER, stores to shared arrays, makes barriers, copies by ASYNC_COPY, or polls;
//   - threads of a role exchange values that have no whole warps or groups;
//   - the phases of a barrier get more or fewer arrivals than its BULK_INIT says. The gate of an arrival is a
//     conjunction; the terms with the thread's number say which threads arrive, the others are the same for all;
//   - in a role, BULK_COPYs that follow a BULK_EXPECT have other bytes than it says;
//   - in a role, a BULK_COPY in a loop has no BULK_WAIT before it in the same iteration, for a barrier at the same place that
//     another role arrives at: it would fill what is still read;
//   - a BULK_ARRIVE follows a GROUP_MMA without an MMA_WAIT between them.
// `maybe_culprit`: the line.
absl::Status VerifyRoles(UOp linear, UOp* maybe_culprit);

}  // namespace uopd::ir
