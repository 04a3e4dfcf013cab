// SPDX-License-Identifier: MIT
// AddBarriers: the lines of a kernel with a BARRIER wherever a thread might access an element of a
// shared array that another thread of its block has stored, or still reads.
//
// Two accesses to one array conflict if one of them stores. Exception: the stores of one filling of
// an array, which go to different elements. A conflict inside of one iteration of a loop gets its
// barrier between the two; a conflict with the next iteration gets it in front of the second
// access. A barrier stands outside of all loops that only one of the two accesses is in.
//
// In a kernel with GROUP_MMAs a SHARED_FENCE stands in front of every barrier.
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// INTERNAL if a kernel that synchronises its threads has a loop whose size differs between them.
// `threads`: of a block; one thread needs no barrier.
absl::StatusOr<ir::UOp> AddBarriers(ir::UOpContext& ctx, ir::UOp linear, int64_t threads);

}  // namespace uopd::codegen
