// SPDX-License-Identifier: MIT
// GroupReduce: combines the partial results of the threads of a group, so that all of them have the
// result (opts GROUP and GROUPTOP).
//
// The bits of the thread's number that lie inside of a warp are combined by SHUFFLEs, a butterfly:
// all lanes add the same terms in the same order up to commutation, so they have the same result.
// The other bits are combined through shared memory: each thread stores its partial result and
// reads those of all others, in two steps of about the square root of their number if there are
// many.
#pragma once
#include "core/codegen/gpu/passes/thread_digits.h"

namespace uopd::codegen {

struct Group {
  int64_t mask = 0;       // the bits of the thread's number that the reduction combines
  int64_t open_mask = 0;  // the bits of the LOCAL ranges that the result depends on
  int64_t lanes = 1;      // that read each other's values (SHUFFLE)
};

// The combination by `op` of `partial` over the threads of the group. New RANGEs get axis ids from
// `next_id` on.
ir::UOp GroupReduce(ir::UOpContext& ctx, ir::Op op, ir::UOp partial, const Group& group,
                    const ThreadDigits& digits, int64_t& next_id);

}  // namespace uopd::codegen
