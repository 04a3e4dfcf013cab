// SPDX-License-Identifier: MIT
// LowerStages: replaces each STAGE by an array and the statement that fills it,
//
//   AFTER(BUFFER {REG}, END(STORE(INDEX(BUFFER, index[, gate]), value), RANGE...))
//
// Later passes treat it like any other statement. Runs before Unroll and Vectorise: if a staged
// value depends on UPCAST, UNROLL or VECTOR ranges of the surrounding loops, the array has elements
// for each of their values. Lanes are contiguous, copies follow each other, and the statement
// closes these ranges too.
//
// A STAGE with the tag of PartialTag keeps partial results of a reduction: its element is combined
// with what the array holds, except for the first panel (cpu/make/keep_partials.h).
#pragma once
#include "core/ir/context.h"

namespace uopd::codegen {

// The tag of a STAGE whose array the threads of a block share (gpu/passes). Its loops are those of
// one thread; the array has elements for all threads.
inline constexpr int64_t kSharedStage = -1;
// The tag of a STAGE that the threads of a block fill together: MapThreads deals its iterations
// out, and makes it a kSharedStage.
inline constexpr int64_t kDealtStage = -2;
// The tag of a STAGE of a state (attention/online/online.h) whose array is one thread's own, also
// on targets with blocks. Before the loop over key tiles its elements are set to what changes
// neither a sum nor, of the state in slot 0, a maximum.
inline constexpr int64_t kThreadStage = int64_t{1} << 32;
inline bool IsSharedStage(ir::UOp u) { return u.Is(ir::Op::STAGE) && u.tag() < 0; }

// The tag of a STAGE that keeps partial results of the reduction `op`. Its first `panels` RANGEs
// are the loops over panels; its index does not depend on them. REQUIRES: panels < 256.
int64_t PartialTag(ir::Op op, size_t panels);
// Of such a tag; a STAGE without a tag has no panels.
ir::Op PartialOp(int64_t tag);
size_t PartialPanels(int64_t tag);

// sink without STAGEs. REQUIRES: no value depends on two VECTOR ranges (ApplyOpts).
ir::UOp LowerStages(ir::UOpContext& ctx, ir::UOp sink);

// The sizes of all arrays of the kernel in bytes: those of a thread, and those that a block shares.
// Floats below 32 bits count as f32.
struct StagedSizes {
  int64_t thread_bytes = 0, shared_bytes = 0;
};
StagedSizes StagedBytes(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
