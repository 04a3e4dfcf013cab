// SPDX-License-Identifier: MIT
// Kept values: what a graph computes from slots that do not change from run to run.
//
// A client runs a graph again and again, and some of its buffers, such as the weights of a model,
// stay the same. SplitKept divides such a graph into two:
//
//   prologue   computes the kept values from the stable slots and stores each into a new slot
//   main       is the graph, but loads the kept values from these slots
//
// The prologue runs when a stable slot has changed, the main graph in every run. Both are ordinary
// tensor graphs, so everything after this step treats them as any other graph.
//
// What is kept
//   - operands of matrix products and convolutions, *packed*: what a register tile reads in
//     one step of its sums lies together (packed_operand.h);
//   - results of arithmetic that costs more than loading them, such as scale and shift of a batch
//     norm.
// The main graph also gets the element order of its own intermediate values from here
// (value_orders.h), since a packed operand pays only if the results are written in its order.
//
// Main and prologue together compute what the graph computes, operation by operation: only where
// and when values are stored differs. Codegen may still choose another order for their sums, so the
// engine compares the kernels before it uses a divided graph (server/engine/kept/sum_forms.h).
#pragma once
#include <optional>
#include <vector>

#include "core/base/status.h"
#include "core/base/target/target.h"
#include "core/ir/context.h"

namespace uopd::schedule {

struct KeptSplit {
  ir::UOp prologue, main;
  // The slots of the kept values are first_slot, first_slot + 1, ...
  int64_t first_slot = 0;
  int64_t slots = 0, bytes = 0;
};

struct KeptOptions {
  int64_t max_bytes = int64_t{1} << 40;  // of all kept values together
};

// `stable`: by slot, whether its contents stay the same. REQUIRES: sink passed ir::Verify(...,
// Level::kTensor). Nullopt if nothing is worth keeping: also for graphs over several devices, and
// for those that would keep more than options.max_bytes.
absl::StatusOr<std::optional<KeptSplit>> SplitKept(ir::UOpContext& ctx, ir::UOp sink,
                                                   const std::vector<bool>& stable,
                                                   const Target& target,
                                                   const KeptOptions& options);

}  // namespace uopd::schedule
