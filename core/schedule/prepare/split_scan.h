// SPDX-License-Identifier: MIT
// Running sums (SCAN) of few long rows, on devices that run blocks of threads.
//
// A thread computes the running sums of a row one after the other, so few rows keep few threads
// busy. A row is cut into chunks, and three kernels compute its sums:
//
//   totals = the sum of each chunk                          REDUCE
//   before = the running sums of the totals                 SCAN; a long row of them is cut again
//   result = the running sums of each chunk, whose first term includes what is before the chunk
//
// Sums of f32 have totals of f64. What is before a chunk is rounded to f32 once, and so is the
// first term that includes it; so the error does not grow with the number of chunks. Products of
// floats, whose totals may leave the range of floats, and sums of floats below 32 bits, whose first
// terms would be rounded, stay as they are. The order of the terms depends on the shapes and the
// device alone. Free of state; nothing fails.
#pragma once
#include "core/ir/context.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// The SCAN u in chunks if it has few long rows, else u. REQUIRES: limits.units > 0.
ir::UOp SplitScan(ir::UOpContext& ctx, ir::UOp u, const KernelLimits& limits);

}  // namespace uopd::schedule
