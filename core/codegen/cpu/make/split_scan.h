// SPDX-License-Identifier: MIT
// THREAD of an axis with running sums: each thread of a launch computes those of one chunk of the
// axis.
//
//   total = the chunk's sum              its own loop over the chunk
//   start = the sum of all chunks before it:  SCAN(total, THREAD range) with the tag kBefore
//   the running sums, beginning with start    a second loop, which finds the chunk in a cache
//
// The sums do not depend on which thread is faster: the totals are added up in the order of the
// chunks. What two loops read is moved from memory once, if a chunk fits in the second-level cache.
#pragma once
#include <span>
#include <string>

#include "core/ir/context.h"

namespace uopd::codegen {

// Why the running sums of a kernel cannot be cut into chunks; empty if they can. `sink` is the
// kernel.
std::string MaybeNoSplitScan(const ir::UOpContext& ctx, ir::UOp sink);

// The running sums of x over a chunk. `loops` are the ranges of the chunk, `thread` is the THREAD
// range. `next_id`: the first free axis id.
ir::UOp SplitScan(ir::UOpContext& ctx, ir::Op op, ir::UOp x, std::span<const ir::UOp> loops,
                  ir::UOp thread, int64_t& next_id);

}  // namespace uopd::codegen
