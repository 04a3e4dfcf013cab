// SPDX-License-Identifier: MIT
// MERGE: two axes of a kernel become one.
//
// A tile is a part of one axis. The pixels of an image lie along two axes, rows and columns, and
// those of a batch along three. A row of 14 pixels is too short for a tile, an image of 196 pixels
// is not. So an `outer` axis of n iterations and an `inner` one of m become an axis r of n * m
// iterations:
//
//   outer = r / m    inner = r % m
//
// Invariants
//   (1) The new axis has the place of `outer` among the axes. The place of `inner` keeps an axis of
//       one iteration, whose RANGE has the tag kMergedAway and no use but to be closed. So the
//       positions of all axes stay.
//   (2) Indices and gates are simplified: where the axes lie one after the other in memory, the
//       divisions disappear.
//   (3) where(c, load, 0) becomes a load with the gate c. So a sum of products has no condition of
//       its own, which it would compute for every product; copies to shared memory compute it once
//       for each element.
#pragma once
#include <string>

#include "core/ir/context.h"

namespace uopd::codegen {

inline constexpr int64_t kMergedAway = 1;

// Why MERGE does not apply to the two RANGEs of the kernel `sink`; empty if it does. It applies to
// two output axes that the same statements close, and to two axes of the same reductions. Their
// sizes are constants. The kernel has no stages, no running sums, and loads from no buffer that it
// stores to. Thread-safe for different contexts.
std::string MaybeNoMerge(ir::UOpContext& ctx, ir::UOp sink, ir::UOp outer, ir::UOp inner);

// The kernel with both axes merged. REQUIRES: MaybeNoMerge is empty.
ir::UOp MergeAxes(ir::UOpContext& ctx, ir::UOp sink, ir::UOp outer, ir::UOp inner);

}  // namespace uopd::codegen
