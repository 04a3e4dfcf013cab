// SPDX-License-Identifier: MIT
// The last steps of scheduling: the order of kernels and copies, then places for temporaries.
#pragma once
#include "core/schedule/fusion/fusion.h"
#include "core/schedule/lowering/lowering.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {

// Orders the kernels and copies of a schedule. Runs after lowering; memory planning (PlanMemory)
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
struct Ordering {
  std::vector<uint32_t> roots;  // of the kernels and copies, in order of execution
  bool complete = true;         // false: the edges have a cycle, so there is no order
  Constraints missing;          // with these, the next attempt may have an order
};

Ordering OrderRoots(const Fusion& fusion, const std::vector<Kernel>& kernels);

// The placeholder that a copy reads.
Placeholder CopySource(const Fusion& fusion, const Root& root);

// Memory planning: gives every temporary an offset in the arena of its device. Last step of
// scheduling; the order of the items is fixed.
//
// Invariant: two temporaries share bytes only if their lifetimes do not overlap. A temporary lives
// from the item that writes it to the last item that uses it.
//
// Algorithm: greedy. Each temporary in turn gets the lowest offset that is free over its whole
// lifetime. Three orders are tried and the best result is kept; the order by size is that of
// Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020). If there
// are thousands of temporaries, only one order is used, that of their births, and each gets the
// smallest gap.
inline constexpr int64_t kTemporaryAlignment = 64;  // bytes

// Drops temporaries that no item uses; sets Temporary::offset and Schedule::arenas.
void PlanMemory(Schedule& schedule);

}  // namespace uopd::schedule
