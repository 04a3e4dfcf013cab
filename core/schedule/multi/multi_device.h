// SPDX-License-Identifier: MIT
// Removes MULTI: values in pieces on several devices become values on one device each, and COPYs
// between the devices. First step of scheduling after float variables are lowered.
//
// Nodes are visited from the inputs to the STOREs. Each node is computed in the pieces of its
// layout (core/ir/analysis/layout.h), after its sources have been moved to the layouts that it
// requires. A reduction along the axis of the pieces is followed by an allreduce. A STORE into a
// MULTI becomes one STORE per piece. Pieces may differ in size. If all sources have the required
// layouts, nothing is moved.
#pragma once
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::schedule {

struct MultiDeviceOptions {
  std::string_view default_device;  // device of PARAMs that name none
  int64_t ring_threshold = 0;       // elements; see AllReduce
};

// The graph without MULTI; the same graph if it has none. INVALID_ARGUMENT, with the node, if
// devices mix without a MULTI, if a piece of a MULTI is in pieces itself, or if the target of a
// STORE is not a view of buffers. REQUIRES: `order` is a graph, sources first, that passed Verify
// at Level::kTensor.
absl::StatusOr<ir::UOp> ResolveMulti(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                                     const MultiDeviceOptions& options);

}  // namespace uopd::schedule
