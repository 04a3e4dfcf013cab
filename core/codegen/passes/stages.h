// SPDX-License-Identifier: MIT
// LowerStages: replaces each STAGE by an array and the statement that fills it,
//
//   AFTER(BUFFER {REG}, END(STORE(INDEX(BUFFER, index[, gate]), value), RANGE...))
//
// Later passes treat it like any other statement. Runs before Unroll and Vectorise: if a staged
// value depends on UPCAST, UNROLL or VECTOR ranges of the surrounding loops, the array has elements
// for each of their values. Lanes are contiguous, copies follow each other, and the statement
// closes these ranges too.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// sink without STAGEs. REQUIRES: no value depends on two VECTOR ranges (ApplyOpts).
ir::UOp LowerStages(ir::UOpContext& ctx, ir::UOp sink);

// The size of all arrays of the kernel in bytes; floats below 32 bits count as f32.
int64_t StagedBytes(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
