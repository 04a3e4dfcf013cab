// SPDX-License-Identifier: MIT
// The loop that a pipeline is made of (pipeline.h): which STOREs are copies that may be done ahead,
// and which shared arrays they fill.
//
// Invariants:
//   - Every STORE to one of the arrays is one of the copies, and all copies are in the loop.
//   - No line outside of the loop reads one of the arrays. An array that such a line reads has no
//     parts: the loop only fills it.
//   - What the copies load is in buffers that no line of the kernel stores to.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "core/ir/context.h"

namespace uopd::codegen {

struct PipelineArray {
  ir::UOp buffer;
  int64_t elements = 0;  // of a part
  bool loaded = false;   // threads load from it, not only products of groups
};

struct PipelineLoop {
  ir::UOp range;
  size_t begin = 0;                   // the line of its RANGE
  size_t end = 0;                     // the line of its END; 0 if the copies run on their own
  bool nested = false;                // it is in another loop
  std::vector<ir::UOp> copies;        // STOREs, in the order of their lines
  std::vector<PipelineArray> arrays;  // in the order of their lines
  std::vector<ir::UOp> groups;        // all GROUP_MMAs of the kernel
  bool groups_read_parts = false;     // there are some, all are in the loop, and read arrays only
  bool one_wait = false;              // the only MMA_WAIT of the kernel is in the loop
  int64_t free_axis = 0;              // an axis id that no RANGE of the kernel has

  // The array that a node is, or is made from; null: none of them.
  const PipelineArray* MaybeArray(ir::UOp array) const;
};

// The first loop of the lines that has copies. `own`: copies run on their own (PipelineWay).
// Nothing if there is none, or if a loop without own copies ends together with a loop inside: no
// line comes after the inner loop then.
std::optional<PipelineLoop> MaybePipelineLoop(ir::UOpContext& ctx, std::span<const ir::UOp> lines,
                                              bool own);

// The gate of an INDEX; null: it has none.
ir::UOp MaybeGateOf(ir::UOp index);

}  // namespace uopd::codegen
