// SPDX-License-Identifier: MIT
// The order of a kernel's output loops, which opts do not speak of: chosen after them, from what
// their sizes have become.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// sink with its LOOP ranges renumbered so that the order moves the fewest bytes through a cache of
// `cache_bytes`, and of those the one that loads least; the order as written if nothing is better.
// REQUIRES: the result of ApplyOpts.
ir::UOp OrderLoops(ir::UOpContext& ctx, ir::UOp sink, double cache_bytes);

}  // namespace uopd::codegen
