// SPDX-License-Identifier: MIT
// A reduction as two: partial results of chunks of an axis, which are written to memory, then their
// combination.
//
// Used by Prepare (prepare.h). Free of state; nothing fails. The result is deterministic: the terms
// of a chunk and the chunks are combined in an order that depends on the shapes alone.
#pragma once
#include "core/ir/context.h"

namespace uopd::schedule {

// How the reduced axis `axis` is cut: into `chunks` chunks of `size` steps. chunks * size is at
// least the size of the axis; the rest of the last chunk is padding, which holds the identity
// element of the reduction.
struct Cut {
  size_t axis = 0;
  int64_t chunks = 1, size = 0;
};

// The REDUCE u as two. Partial sums and products of floats below 32 bits are f32, so that the
// result is rounded once. `keeps_result`: the result is written to memory too, instead of being
// computed where it is used. REQUIRES: the source of u has constant dimensions, and u reduces the
// axis.
ir::UOp CutReduce(ir::UOpContext& ctx, ir::UOp u, const Cut& cut, bool keeps_result);

// x with `size` elements along the axis; those that x does not have are the identity element of the
// reduction op. REQUIRES: x has constant dimensions, and at most `size` elements along the axis.
ir::UOp PadForReduce(ir::UOpContext& ctx, ir::Op op, ir::UOp x, size_t axis, int64_t size);

}  // namespace uopd::schedule
