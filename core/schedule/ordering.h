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
  bool complete = true;  // false: no order exists, but one may if fusion keeps to `missing`
  Constraints missing;
};

// Read-after-write: a reader of a temporary, or of a slot through AFTER(STOREs), comes after those
// kernels. Write-after-read: a STORE comes after every kernel that reads the slot in a state
// without that STORE. Write-after-write: STOREs into one slot keep the graph's order. Ties follow
// the graph's topological order.
Ordering OrderRoots(const Fusion& fusion, const std::vector<Kernel>& kernels);

// The placeholder that a copy reads.
Placeholder CopySource(const Fusion& fusion, const Root& root);

}  // namespace uopd::schedule
