// SPDX-License-Identifier: MIT
// The opts of the heuristic that change how a kernel uses the caches: STREAM and PREFETCH.
//
// An ordinary store first reads the line that it writes. A store around the caches does not. It is
// worth it if the results are so large that the last cache loses them before somebody reads them.
//
// A kernel that goes over each row several times (softmax, layer norm) waits for memory in the
// first pass only. So each pass prefetches the next row.
#pragma once
#include <span>
#include <vector>

#include "core/codegen/codegen.h"

namespace uopd::codegen {

// What the heuristic knows of an axis after it has chosen vectors, copies and threads.
struct MemoryAxis {
  ir::UOp range;
  int64_t size = 1;   // iterations, at the maximum of the variables
  int64_t lanes = 1;  // of its vector
  int64_t tile = 1;   // elements that are computed together: vectors and copies
  int64_t left = 1;   // iterations that are left to one thread
  bool fixed = false, is_reduce = false;
};

// In the order in which they should be tried. `axes` are those of Axes(ctx, sink).
std::vector<Opt> MemoryOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                            std::span<const MemoryAxis> axes);

}  // namespace uopd::codegen
