// SPDX-License-Identifier: MIT
// Rewrites of the tensor graph before fusion: what means nothing any more is dropped, and what
// would make a bad kernel is said in another way.
#pragma once
#include <vector>

#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Bound variables are variables here; markers for gradients are gone, and so is CONTIGUOUS of what
// is in memory as it stands; reductions that leave threads without work are split (below); STACKs
// of more sources than a kernel may have buffers are WHEREs of short ones, so that it need not read
// them all. `order` is the graph, sources first.
//
// A reduction to few elements becomes two where that is cheaper: pieces of it, which all threads
// share, then their results. In the units of fusion.h, a reduction of all terms by t threads takes
//
//   work / t                                                              whole
//   work / t' + pieces * elements * (realise_cost + load) + launch_cost   in pieces
//
// where t are as many threads as the loops over the result, without what vectors take of them, can
// be divided among, and t' those that the pieces can; neither more than the work is worth.
ir::UOp Prepare(ir::UOpContext& ctx, const std::vector<ir::UOp>& order, const Options& options);

}  // namespace uopd::schedule
