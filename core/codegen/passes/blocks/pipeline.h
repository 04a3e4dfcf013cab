// SPDX-License-Identifier: MIT
// Pipeline: copies to shared memory that run while the threads compute (PIPELINE).
//
// A loop that copies pieces of buffers to shared arrays and computes with them becomes
//
//   copy for steps 0 to n - 2                      each step is one group of copies
//   for each step
//     wait until the copies of the step are there; barrier
//     copy for step + n - 1
//     compute with the step's part of the array
//
// The arrays have n parts, which the steps take in turns. One barrier for each step is enough: who passes it has
// finished the step before, whose part the new copies replace.
//
// Products of groups of warps (GROUP_MMA) run on while the next step begins, if there are three parts and they read
// parts only:
//
//   copy for steps 0 to n - 3
//   for each step
//     wait until the copies of the step are there; barrier
//     copy for step + n - 2
//     begin the products of the step; wait until those of the step before are done
//   wait for the last products
//
// The part that the new copies replace is that of two steps before, whose products all threads have waited for.
//
// Where a target copies boxes of tensors, one thread begins all copies of a step (bulk_plan.h), if everything that the
// step reads is boxes and is read by products of groups. Each part has a barrier that counts bytes:
//
//   make the barriers; barrier; copy for the first steps
//   for each step
//     barrier                   -- the part that is filled next is free
//     copy for step + n - 1     -- by one thread
//     wait until the bytes of this step are there
//     compute
//
// Such copies are of 16 bytes at multiples of 16 bytes, of what no line of the kernel stores. Other arrays are filled as
// before.
//
// A target without copies that run on their own keeps the next step in registers instead:
//
//   copy for step 0
//   for each step
//     load what the copies of step + 1 need
//     compute
//     barrier; store what is computed from it to the array; barrier
//
// The loads are under way while the threads compute. The array has one part. What is stored may be computed from
// several loads, of any width.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// `linear` with a pipeline of `parts` parts, before its indices are lowered (linearise.h). The same if no loop copies
// that way. `own`: the target has copies that run on their own (Target::async_copies). The barriers of the other way are
// left to AddBarriers. `bulk`: boxes may be copied at once (Target::bulk_copies).
// REQUIRES: parts >= 2; parts == 2 unless `own`.
ir::UOp Pipeline(ir::UOpContext& ctx, ir::UOp linear, int64_t parts, bool own, bool bulk);

}  // namespace uopd::codegen
