// SPDX-License-Identifier: MIT
// Allreduce: partial results of one reduction, one on each device, become the whole result on every
// one of them.
//
// Every device gets the same bits, as each element is combined in one order and then copied or
// combined again in that same order:
//
//   naive   every device copies all partials and combines them, first device first: one step, and
//           n * (n - 1) copies of everything.
//   ring    the elements are cut into n chunks; chunk c travels from device c once around, each
//           device adding its own part (reduce-scatter), and then around again, finished
//           (allgather): 2 * (n - 1) steps, in each of which a device sends one chunk. The method
//           of Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
//           workstations" (2009).
#pragma once
#include "core/schedule/reshard.h"

namespace uopd::schedule {

// REQUIRES: partials.nodes have one shape; op is ADD, MUL or MAX. The ring is taken for more than
// `ring_threshold` elements, of a shape without variables, on more than two devices.
Pieces AllReduce(ir::UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t ring_threshold);

}  // namespace uopd::schedule
