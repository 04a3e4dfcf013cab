// SPDX-License-Identifier: MIT
// MapThreads: gives the GLOBAL and LOCAL ranges of a kernel to the blocks and threads of a launch.
//
// The first pass after the opts, for targets with blocks. The block's number is split into the
// GLOBAL ranges, and the thread's number into the LOCAL ranges (thread_bits.h). Then
//   - a REDUCE over LOCAL ranges combines the results of threads: by SHUFFLEs inside of a warp, and
//     through shared memory between warps;
//   - a STAGE becomes an array that the threads of a block share and fill together
//     (shared_stage.h);
//   - threads that have no part of their own in a STORE do not store, and do not load what others
//     store.
//
// Where blocks are PERSISTent (opts/kinds/launch_order.cc), the launch has fewer blocks than there
// are iterations of the GLOBAL ranges. Block b of n does the iterations b, b + n, b + 2n, ... in a
// loop around all statements.
//
// Invariants of the result: no GLOBAL or LOCAL ranges; SPECIALs instead; every STAGE is shared.
#pragma once
#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::codegen {

struct ThreadMap {
  ir::UOp sink;
  int64_t threads = 1;  // of a block
  ir::UOp blocks;       // number of blocks: an index expression over the variables
};

// INVALID_ARGUMENT: a block has more threads than the target allows, or there are more blocks than
// fit in a launch. REQUIRES: target.blocks; a kernel after MakeKernel. `persistent` is the number
// of blocks of PERSIST; 0: a block for each iteration.
absl::StatusOr<ThreadMap> MapThreads(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                     int64_t persistent = 0);

}  // namespace uopd::codegen
