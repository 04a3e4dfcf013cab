// SPDX-License-Identifier: MIT
// Linearise: turns a kernel graph without UPCAST, UNROLL and VECTOR ranges into the lines of a
// linear kernel: loops, accumulators, statements.
//
// Invariants
//   (1) A value is computed once, in the innermost loop that it depends on. The same holds for an
//       array (LowerStages) with the loops that fill it.
//   (2) Reductions and arrays over equal loops in the same place share one loop, unless one depends
//       on the other.
//   (3) Every loop of the kernel has a RANGE of its own. Every array has one BUFFER, which is
//       filled again in each iteration of the surrounding loops.
#pragma once
#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// Returns the LINEAR. A THREAD range becomes a SPECIAL, and its size becomes `grid_x`, an
// expression over `variables`. UNIMPLEMENTED for a kernel with too many loops.
absl::StatusOr<ir::UOp> Linearise(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  std::span<const std::string> variables, LaunchSize& grid_x);

// Replaces the index dtype: scalars become i64; vectors become i32 if their bounds fit (vectors are
// masks and data, never addresses), else i64. On targets with narrow_index, scalars become i32 too
// if their bounds fit. DEFINE_VARs keep dtype index.
ir::UOp LowerIndex(ir::UOpContext& ctx, ir::UOp linear, const Target& target);

}  // namespace uopd::codegen
