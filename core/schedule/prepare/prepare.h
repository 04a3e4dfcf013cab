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

}  // namespace uopd::schedule
