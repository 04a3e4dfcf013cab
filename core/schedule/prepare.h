// SPDX-License-Identifier: MIT
// Rewrites of the tensor graph before fusion: what means nothing any more is dropped, and what
// would make a bad kernel is said in another way.
#pragma once
#include <vector>

#include "core/ir/context.h"

namespace uopd::schedule {

// Reductions of at least this many terms to few elements become two: pieces, then their results.
inline constexpr int64_t kSplitTerms = 32768;
inline constexpr int64_t kEnoughElements = 256;  // of a result, to keep every thread busy

// Bound variables are variables here; markers for gradients are gone, and so is CONTIGUOUS of what
// is in memory as it stands; long reductions are split; STACKs of more than `stack` sources are
// WHEREs of short ones, so that a kernel need not read them all. `order` is the graph, sources
// first.
ir::UOp Prepare(ir::UOpContext& ctx, const std::vector<ir::UOp>& order, size_t stack);

}  // namespace uopd::schedule
