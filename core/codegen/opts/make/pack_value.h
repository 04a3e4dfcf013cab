// SPDX-License-Identifier: MIT
// PACK: a copy of what a load reads, in the order in which the innermost loops read it.
//
// The copy is a STAGE (docs/ir.md). It is made once for all iterations of the loops that the load
// does not depend on, its elements are contiguous, and its reads need no gates. A copy for a whole
// panel (BLOCK) holds one tile after the other.
#pragma once
#include <span>

#include "core/ir/context.h"
#include "core/ir/graph.h"

namespace uopd::codegen {

// A RANGE of the rebuilt kernel that the value depends on and that the copy covers.
struct PackPart {
  ir::UOp range;
  size_t axis = 0;     // that the part was split off
  int64_t stride = 1;  // of the part in its axis
  bool reduced = false;
  bool in_loop = false;  // a loop over tiles inside of a panel (BLOCK)
  bool in_rows =
      false;  // elements along it lie next to each other (rows of MatrixInstruction with m > 1)
};

// The LOAD of `value` from an array (STAGE with this tag) that holds it for all iterations of the
// ranges in `layout`, outermost first. The array is filled over `closed`; `fresh` are the ranges
// and indices that stand for those of the layout there. REQUIRES: the ranges have constant sizes.
ir::UOp LoadFromArray(ir::UOpContext& ctx, ir::UOp value, std::span<const PackPart> layout,
                      const ir::Substitution& fresh, std::span<const ir::UOp> closed,
                      int64_t tag = 0);

// Replaces `value`: a LOAD of a buffer, or a word that is made of LOADs (tensor_core.h). New RANGEs
// get the axis ids from `next_id` on. REQUIRES: the ranges have constant sizes.
ir::UOp PackValue(ir::UOpContext& ctx, ir::UOp value, std::span<const PackPart> parts,
                  int64_t& next_id);

// The same on a target with blocks: the copy lies in memory that the threads of a block share, and
// they make it together (gpu/passes/threads/shared_stage.h).
ir::UOp PackShared(ir::UOpContext& ctx, ir::UOp value, std::span<const PackPart> parts,
                   int64_t& next_id);

}  // namespace uopd::codegen
