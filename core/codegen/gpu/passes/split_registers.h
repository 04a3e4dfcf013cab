// SPDX-License-Identifier: MIT
// SplitRegisters: an array of a thread whose elements all have constant indices becomes one BUFFER
// {REG} for each element, which is a register. The states of warp rows
// (attention/warp_rows/warp_rows.h) are such arrays once loops are copies: PTX has no registers
// with an index, so an array would lie in memory.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// Runs after Unroll. Other arrays stay. Thread-safe for different contexts.
ir::UOp SplitRegisters(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
