// SPDX-License-Identifier: MIT
// Lineariser: the state of Linearise (linearise.h) while it emits lines, and what emits them.
//
//   nests.cc        which stores share loops
//   node_loops.cc   the loops that every node depends on
//   linearise.cc    one nest after the other
//   scopes.cc       open loops, and the lines in them
//   values.cc       every value in the innermost loop that it depends on
//   reductions.cc   the loops of reductions and arrays
//   emit_scan.cc    running sums
//   accumulator.cc  accumulators
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"
#include "core/codegen/linearise/node_loops.h"
#include "core/codegen/linearise/scopes.h"

namespace uopd::codegen {

// Not thread-safe; for one kernel.
struct Lineariser {
  ir::UOpContext& ctx;
  const Target& target;
  const std::span<const std::string> variables;
  LaunchSize& grid_x;
  const NodeLoops& loops;
  Scopes scopes{ctx, loops};
  std::vector<ir::UOp> with_loops;  // reductions and arrays of the current nest
  int64_t next_register = 0;
};

// In values.cc.
// Emits every node below `roots` that is not emitted yet and depends on open loops only. Recursion
// (through EmitLoops) is as deep as reductions and arrays nest.
absl::Status EmitValues(Lineariser& l, std::span<const ir::UOp> roots);
// Opens a scope for a RANGE of the kernel. A THREAD range opens none: it becomes a SPECIAL.
absl::Status OpenLoop(Lineariser& l, ir::UOp range);

// In reductions.cc. Emits reductions and arrays with equal loops, which they share.
absl::Status EmitLoops(Lineariser& l, std::span<const ir::UOp> together);

// In emit_scan.cc. A running sum: an accumulator that is set up before the outermost of its loops,
// and changed in each iteration. REQUIRES: its loops are the innermost ones that it depends on.
absl::Status EmitScan(Lineariser& l, ir::UOp u);

}  // namespace uopd::codegen
