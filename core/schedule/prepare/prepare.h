// SPDX-License-Identifier: MIT
// Rewrites the tensor graph before fusion (describe.h is next): removes nodes without meaning for
// kernels, and replaces nodes that would make slow or impossible kernels.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Four rewrites; `order` is the graph, sources first:
//
//   BIND, DETACH and CONTIGUOUS_BACKWARD become their sources.
//   CONTIGUOUS of a value that is in memory already, in one run, becomes its source.
//   STACK of more sources than a kernel may read buffers becomes a WHERE of shorter STACKs, so that
//   no kernel has to read all sources.
//   REDUCE to few elements becomes two if that is cheaper.
//
// The last one: with few elements, the loops over the result do not give every thread work. So the
// terms are split into chunks, which all threads share; a second REDUCE combines the results of the
// chunks. In the units of fusion.h, the cost is
//
//   work / t                                                              of one REDUCE
//   work / t' + chunks * elements * (realise_cost + load) + launch_cost   of two
//
// where `work` is that of all terms, t is the number of threads that can share the loops over the
// result (without the innermost iterations, which vectors take), and t' the number that can share
// the chunks. Neither is larger than codegen would choose for this much work.
ir::UOp Prepare(ir::UOpContext& ctx, const std::vector<ir::UOp>& order, const Options& options);

}  // namespace uopd::schedule
