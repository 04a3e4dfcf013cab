// SPDX-License-Identifier: MIT
// Allreduce: n devices have one partial result of a reduction each; afterwards each has the whole
// result. Part of the first step of scheduling (multi_device.h).
//
// Invariant: all devices get the same bits. For every element, all devices combine the partial
// results in the same order, or one device does and the others copy the result.
//
//   naive   Every device copies all partial results and combines them in the order of the devices:
//           one step, n * (n - 1) copies of all elements.
//   ring    The elements are split into n chunks. Chunk c goes around the devices once, starting at
//           device c, and each device adds its own elements (reduce-scatter). Then the finished
//           chunk goes around again (allgather). 2 * (n - 1) steps; each device sends one chunk per
//           step. Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
//           of workstations" (2009).
#pragma once
#include "core/schedule/multi/reshard.h"

namespace uopd::schedule {

// The ring is used for more than `ring_threshold` elements on more than two devices, if the shape
// has no variables. REQUIRES: partials.nodes have equal shapes; op is ADD, MUL or MAX.
Pieces AllReduce(ir::UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t ring_threshold);

}  // namespace uopd::schedule
