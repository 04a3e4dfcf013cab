// SPDX-License-Identifier: MIT
// Orders the kernels and copies of a schedule. Runs after lowering; memory planning (memory_plan.h)
// follows.
//
// The order is a topological sort of the roots. Its edges are:
//
//   read-after-write   A root that reads a temporary, or a slot through AFTER(STOREs), runs
//                      after the roots that write these.
//   write-after-read   A STORE runs after every root that reads the slot in a state without that
//                      STORE.
//   write-after-write  STOREs into one slot keep the order of the graph.
//
// Roots without an edge between them keep the topological order of the graph.
#pragma once
#include "core/schedule/fusion/fusion.h"
#include "core/schedule/lowering/lowering.h"

namespace uopd::schedule {

struct Ordering {
  std::vector<uint32_t> roots;  // of the kernels and copies, in order of execution
  bool complete = true;         // false: the edges have a cycle, so there is no order
  Constraints missing;          // with these, the next attempt may have an order
};

Ordering OrderRoots(const Fusion& fusion, const std::vector<Kernel>& kernels);

// The placeholder that a copy reads.
Placeholder CopySource(const Fusion& fusion, const Root& root);

}  // namespace uopd::schedule
