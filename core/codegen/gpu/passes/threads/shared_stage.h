// SPDX-License-Identifier: MIT
// Stages of a kernel whose threads work in blocks: arrays that the threads of a block share.
//
// Three ways to fill such an array
//   - The stage closes LOCAL ranges (GROUP of its axis): each thread stores its own elements.
//   - All iterations are dealt out to the threads of the block, neighbouring threads getting
//     neighbouring addresses, several at a time as a vector.
//   - A value that the whole block computes together (a REDUCE over LOCAL ranges inside of it)
//     cannot be dealt out: all threads run all iterations, and the first thread stores.
// Where a staged value depends on LOCAL ranges around the stage, the array has elements for each of
// their values.
#pragma once
#include "core/base/target/target.h"
#include "core/codegen/gpu/passes/threads/thread_digits.h"

namespace uopd::codegen {

// The most accesses of a thread that fill an array without a loop: their loads wait for memory
// together.
inline constexpr int64_t kMostTurns = 8;

// Gives the arrays elements for each value of the LOCAL ranges around them. Stages without LOCAL
// ranges of their own get the tag kDealtStage, the others kSharedStage. New RANGEs get axis ids
// from `next_id` on.
ir::UOp ShareStages(ir::UOpContext& ctx, ir::UOp sink, int64_t& next_id);

// Whether the iterations of a STAGE can be dealt out. `stage`: as ShareStages made it.
bool CanBeDealt(const ir::UOpContext& ctx, ir::UOp stage);

// A kDealtStage whose iterations are dealt out to the threads. Its sources are those after the
// mapping of threads. REQUIRES: CanBeDealt of the stage before.
ir::UOp DealStage(ir::UOpContext& ctx, ir::UOp stage, const ThreadDigits& digits,
                  const Target& target, int64_t& next_id);

}  // namespace uopd::codegen
