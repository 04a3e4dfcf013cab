// SPDX-License-Identifier: MIT
// Unroll: UPCAST and UNROLL ranges disappear; what depends on them is replicated.
#pragma once
#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// Mark (UOp::tag) of an ADD, MUL or WHERE that joins the unrolled terms of a reduction: an
// accumulator may take the terms one by one instead of their sum, and a product among them need not
// be rounded.
inline constexpr int64_t kReduceChain = 1;

// sink without UPCAST and UNROLL ranges. Equal copies are one node. RESOURCE_EXHAUSTED if it would
// grow beyond all measure.
absl::StatusOr<ir::UOp> Unroll(ir::UOpContext& ctx, ir::UOp sink);

}  // namespace uopd::codegen
