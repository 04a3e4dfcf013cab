// SPDX-License-Identifier: MIT
// Linearise: a kernel without unrolled or vector ranges becomes lines in order: loops,
// accumulators, statements.
//
// A value stands in the innermost loop that it varies with, once; so does an array (LowerStages)
// with the loops that fill it. Reductions and arrays over the same loops in the same place share
// them unless one needs the other's result. Every opened loop gets a RANGE of its own, every array
// one BUFFER that is filled anew in each iteration of the loops around.
#pragma once
#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// The LINEAR; THREAD ranges become SPECIALs and set `grid_x`, which may depend on `variables`.
absl::StatusOr<ir::UOp> Linearise(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  std::span<const std::string> variables, LaunchSize& grid_x);

// Index dtype -> i64 for scalars, i32 for vectors that fit (they are masks and data, not
// addresses). DEFINE_VARs stay.
ir::UOp LowerIndex(ir::UOpContext& ctx, ir::UOp linear);

}  // namespace uopd::codegen
