// SPDX-License-Identifier: MIT
// Values in pieces, how to move them from one layout (core/ir/analysis/layout.h) to another, and
// how to reduce them. Part of the first step of scheduling (multi_device.h).
#pragma once
#include <vector>

#include "core/ir/analysis/layout.h"

namespace uopd::schedule {

// One value: one piece for each device of its layout, or a single node that needs no device.
struct Pieces {
  ir::Layout layout;
  std::vector<ir::UOp> nodes;
};

// x on device `to`: a COPY, or x itself if `from`, the device of x, is `to` or empty (no device
// needed).
ir::UOp OnDevice(ir::UOpContext& ctx, ir::UOp x, std::string_view from, std::string_view to);

// The elements [begin, begin + length) of x along an axis.
ir::UOp Slice(ir::UOpContext& ctx, ir::UOp x, int64_t axis, int64_t begin, int64_t length);

// The concatenation of parts on one device along an axis. Elements keep all their bits, also -0 and
// NaN.
ir::UOp Joined(ir::UOpContext& ctx, std::span<const ir::UOp> parts, int64_t axis);

// The same value in layout `to`. To each device, only the elements of its piece are copied; nothing
// is copied if the device has a whole copy of the value.
Pieces Reshard(ir::UOpContext& ctx, const Pieces& value, const ir::Layout& to);

// Allreduce: n devices have one partial result of a reduction each; afterwards each has the whole
// result.
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
//
// The ring is used for more than `ring_threshold` elements on more than two devices, if the shape
// has no variables. REQUIRES: partials.nodes have equal shapes; op is ADD, MUL or MAX.
Pieces AllReduce(ir::UOpContext& ctx, ir::Op op, const Pieces& partials, int64_t ring_threshold);

}  // namespace uopd::schedule
