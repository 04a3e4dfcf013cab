// SPDX-License-Identifier: MIT
// Replaces variables of float dtype by integer variables that hold the bits of a double. Runs
// before all other steps of scheduling.
//
// Kernels and requests pass variables as 64-bit integers only. A DEFINE_VAR of a float dtype
// becomes CAST(BITCAST(CAST(index -> i64) -> f64)) of an index variable of the same name, whose
// bounds are those of 64-bit integers.
#pragma once
#include "core/ir/context.h"

namespace uopd::schedule {

// The graph without variables of float dtype. REQUIRES: `order` is the graph, sources first.
ir::UOp LowerFloatVariables(ir::UOpContext& ctx, std::span<const ir::UOp> order);

}  // namespace uopd::schedule
