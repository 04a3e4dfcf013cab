// SPDX-License-Identifier: MIT
// Rewrites the tensor graph before fusion (describe.h is next): removes nodes without meaning for
// kernels, and replaces nodes that would make slow or impossible kernels.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/fusion/access.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Five rewrites; `order` is the graph, sources first:
//
//   BIND, DETACH and CONTIGUOUS_BACKWARD become their sources.
//   CONTIGUOUS of a value that is in memory already, in one run, becomes its source.
//   STACK of more sources than a kernel may read buffers becomes a WHERE of shorter STACKs, so that
//   no kernel has to read all sources.
//   REDUCE to few elements becomes two if that is cheaper (split_reduce.h, split_for_blocks.h).
//   SCAN of few long rows, on devices that run blocks, is cut into chunks (split_scan.h).
ir::UOp Prepare(ir::UOpContext& ctx, Accesses& accesses, const std::vector<ir::UOp>& order,
                const Options& options);

// Replaces variables of float dtype by integer variables that hold the bits of a double. Runs
// before all other steps of scheduling.
//
// Kernels and requests pass variables as 64-bit integers only. A DEFINE_VAR of a float dtype
// becomes CAST(BITCAST(CAST(index -> i64) -> f64)) of an index variable of the same name, whose
// bounds are those of 64-bit integers.
//
// The graph without variables of float dtype. REQUIRES: `order` is the graph, sources first.
ir::UOp LowerFloatVariables(ir::UOpContext& ctx, std::span<const ir::UOp> order);

}  // namespace uopd::schedule
