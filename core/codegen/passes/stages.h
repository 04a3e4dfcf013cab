// SPDX-License-Identifier: MIT
// Stages: STAGE becomes an array and the statement that fills it,
//
//   AFTER(BUFFER {REG}, END(STORE(INDEX(BUFFER, index[, gate]), value), RANGE...))
//
// which the passes that follow treat like any other statement. A value that varies with UPCAST,
// UNROLL or VECTOR ranges of the loops around has room for each of their values: lanes lie side by
// side, copies one after the other, and the statement closes those ranges too.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// sink without STAGEs. REQUIRES: no value varies along two VECTOR ranges (ApplyOpts).
ir::UOp LowerStages(ir::UOpContext& ctx, ir::UOp sink);

// Bytes that all arrays of the kernel take together, small floats as wide as they are computed in.
int64_t StagedBytes(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
