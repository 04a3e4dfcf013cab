// SPDX-License-Identifier: MIT
// Values in pieces on several devices become values on one device each, and COPYs between them.
//
// MULTI goes outward, from the inputs to the stores: every node is computed in the pieces that its
// layout says (core/ir/layout.h), after its sources have been moved to where it needs them; a
// reduction along the axis of the pieces is followed by an allreduce; a STORE into a MULTI becomes
// one for each piece. Pieces may differ in size. What is computed in equal pieces moves nothing.
#pragma once
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::schedule {

struct MultiDeviceOptions {
  std::string_view default_device;  // of PARAMs that name none
  int64_t ring_threshold = 0;       // elements; see allreduce.h
};

// The graph without MULTI; the same graph if it has none. INVALID_ARGUMENT names the node where
// devices mix without a MULTI, pieces are in pieces, or a STORE's target is not the pieces'
// storage. REQUIRES: `order` is a graph, sources first, that passed Verify at Stage::kTensor.
absl::StatusOr<ir::UOp> ResolveMulti(ir::UOpContext& ctx, const std::vector<ir::UOp>& order,
                                     const MultiDeviceOptions& options);

}  // namespace uopd::schedule
