// SPDX-License-Identifier: MIT
// Normalisation: turns what a client wants to compute into the normalised graph, whose digest names
// it on every daemon.
//
// Buffers become PARAM slots in the order of first use. Bound variables lose their values. Tags are
// removed. A BUFFER with symbolic sizes is the corner of a PARAM that has the largest sizes.
// AFTER(BUFFER, STORE(view of BUFFER, value)) means the buffer with that part replaced, and AFTERs
// may follow each other: they stay stores into the buffer if an Output says so; otherwise they
// become new values. So two steps of a training loop give the same graph, and in one context the
// same node.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "client/cpp/graph/safe_sizes.h"
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::client {

// A value and the target that it is written to: a BUFFER, or a MULTI of BUFFERs.
struct Output {
  ir::UOp value;
  ir::UOp target;
  // True if the target has an old value, which this or other outputs may read. Outputs that use the
  // new value then read it back from the target (AFTER) instead of computing it again. A value that
  // is an AFTER of the target stores only its parts.
  bool replaces = false;
};

struct NormalForm {
  ir::UOp sink;                    // in the same context
  std::vector<uint64_t> buffers;   // for each slot the slot number of the BUFFER
  std::vector<int64_t> variables;  // in topological order of their DEFINE_VARs
  // What holds for the values that the variables have, and not for all values.
  std::vector<SizeCondition> conditions;
};

inline constexpr char kAnotherValue = '/';

// REQUIRES: values passed VerifyNode and have the shapes and dtypes of their targets.
// RESOURCE_EXHAUSTED for more buffers than a graph has slots. A variable that is bound to several
// values becomes several variables, whose names end in kAnotherValue.
absl::StatusOr<NormalForm> Normalize(ir::UOpContext& ctx, std::span<const Output> outputs);

}  // namespace uopd::client
