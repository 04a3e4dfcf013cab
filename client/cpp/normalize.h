// SPDX-License-Identifier: MIT
// Normalisation: what a client wants computed, as the graph whose digest names it on every daemon.
//
// Buffers become PARAM slots in the order of first encounter, bound variables lose their values,
// tags go. AFTER(BUFFER, STORE(SHRINK(BUFFER), value)) means the buffer with that part replaced:
// it stays a store into the buffer where an Output says so, and becomes a new value elsewhere. Two
// steps of a training loop thus give the same graph, and in one context the same node.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::client {

// A value and what it is written to: a BUFFER, or a MULTI of BUFFERs.
struct Output {
  ir::UOp value;
  ir::UOp target;
  // The target's old value may be read by this or other outputs. Outputs that use the new value
  // then read it back from the target (AFTER) instead of computing it again. A value that is an
  // AFTER of the target stores its part only.
  bool replaces = false;
};

struct NormalForm {
  ir::UOp sink;                    // in the same context
  std::vector<uint64_t> buffers;   // by slot: the slot numbers (handles) of the BUFFERs
  std::vector<int64_t> variables;  // in topological order of their DEFINE_VARs
};

// REQUIRES: values passed VerifyNode and have the shapes and dtypes of their targets.
// INVALID_ARGUMENT when one variable is bound to two values; RESOURCE_EXHAUSTED for more buffers
// than a graph has slots.
absl::StatusOr<NormalForm> Normalize(ir::UOpContext& ctx, std::span<const Output> outputs);

}  // namespace uopd::client
