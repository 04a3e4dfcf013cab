// SPDX-License-Identifier: MIT
// Vectorise: VECTOR ranges disappear; what depends on one becomes a value of shape (lanes,).
//
// Loads and stores become one access where the index steps by one from lane to lane, a scalar one
// where it does not move, and one per lane otherwise. A reduction over a VECTOR range keeps a
// vector of partial results and joins its lanes at the end.
#pragma once
#include <optional>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::codegen {

// sink without VECTOR ranges. REQUIRES: no value varies along two of them (ApplyOpts).
absl::StatusOr<ir::UOp> Vectorise(ir::UOpContext& ctx, ir::UOp sink);

// How much an index grows from one value of `range` to the next; nullopt if that is not always the
// same (or not known to be).
std::optional<int64_t> StrideAlong(ir::UOpContext& ctx, ir::UOp index, ir::UOp range);

}  // namespace uopd::codegen
