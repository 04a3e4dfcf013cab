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
// The arrays have n parts, which the steps take in turns. One barrier for each step is enough: who
// passes it has finished the step before, whose part the new copies replace.
//
// Products of groups of warps (GROUP_MMA) run on while the next step begins, if there are three
// parts and they read parts only:
//
//   copy for steps 0 to n - 3
//   for each step
//     wait until the copies of the step are there; barrier
//     copy for step + n - 2
//     begin the products of the step; wait until those of the step before are done
//   wait for the last products
//
// The part that the new copies replace is that of two steps before, whose products all threads have
// waited for.
//
// Where a target copies boxes of tensors, one thread begins all copies of a step (bulk_plan.h), if
// everything that the step reads is boxes and is read by products of groups. Each part has a
// barrier that counts bytes:
//
//   make the barriers; barrier; copy for the first steps
//   for each step
//     barrier                   -- the part that is filled next is free
//     copy for step + n - 1     -- by one thread
//     wait until the bytes of this step are there
//     compute
//
// Better, a block has warps that copy alone. Then no thread waits for the whole block: each part
// has a second barrier, at which the warps that compute arrive when they have read the part.
//
//   make the barriers; barrier
//   one thread:  for each step             the others:  for each step
//                  wait for a free part                   wait for the bytes of this step
//                  copy for the step                      begin the products of the step
//                                                         wait for those of the step before
//                                                         arrive: the part before is free
//                                                       wait for the last products, and go on
//
// So the first one is as many steps ahead as there are parts. It needs products of groups which
// alone read the arrays, in a loop that is in no other one.
//
// Such copies are of 16 bytes at multiples of 16 bytes, of what no line of the kernel stores. Other
// arrays are filled as before.
//
// A target without copies that run on their own keeps the next step in registers instead:
//
//   copy for step 0
//   for each step
//     load what the copies of step + 1 need
//     compute
//     barrier; store what is computed from it to the array; barrier
//
// The loads are under way while the threads compute. The array has one part. What is stored may be
// computed from several loads, of any width.
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

struct PipelineWay {
  int64_t parts = 2;      // at least 2; 2 unless `own`
  bool own = false;       // the target has copies that run on their own (Target::async_copies)
  bool bulk = false;      // boxes may be copied at once (Target::bulk_copies)
  int64_t producers = 0;  // threads of the warps that copy alone; 0: there are none
  int64_t warp_lanes = 32;
  int64_t most_threads = 1024;  // of a block
};

// `linear` with a pipeline, before its indices are lowered (linearise.h). The same if no loop
// copies that way. The barriers of the way without `own` are left to AddBarriers. With producers
// its block has more threads, if the way applies.
ir::UOp Pipeline(ir::UOpContext& ctx, ir::UOp linear, const PipelineWay& way);

}  // namespace uopd::codegen
