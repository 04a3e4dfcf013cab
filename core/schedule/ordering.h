// SPDX-License-Identifier: MIT
// The order of kernels: who must have written before whom, and who must have read before a buffer
// is overwritten.
#pragma once
#include "core/schedule/fusion.h"
#include "core/schedule/lowering.h"

namespace uopd::schedule {

// One kernel or copy of the schedule, by root, in order of execution.
struct Ordering {
  std::vector<uint32_t> roots;
  // Not empty: no order exists. Materialising these nodes, PARAMs or AFTERs read in a state that
  // another kernel must overwrite first, gets closer to one.
  std::vector<uint32_t> snapshot;
};

// Read-after-write: a reader of a temporary, or of a slot through AFTER(STOREs), comes after those
// kernels. Write-after-read: a STORE comes after every kernel that reads the slot in a state
// without that STORE. Ties follow the graph's topological order.
Ordering OrderRoots(ir::UOpContext& ctx, Fusion& fusion, const Lowered& lowered);

}  // namespace uopd::schedule
