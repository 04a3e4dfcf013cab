// SPDX-License-Identifier: MIT
// Variables of float dtype: in kernels, the bits of a double in an integer variable.
//
// Programs take variables as 64-bit integers and nothing else, and so do requests. A graph's
// DEFINE_VAR of a float dtype is read as CAST(BITCAST(i64 -> f64)) of an index variable of the same
// name, whose bounds are those of 64 bits.
#pragma once
#include "core/ir/context.h"

namespace uopd::schedule {

// The graph without variables of float dtype. REQUIRES: order is that of its nodes, the root last.
ir::UOp LowerFloatVariables(ir::UOpContext& ctx, std::span<const ir::UOp> order);

}  // namespace uopd::schedule
