// SPDX-License-Identifier: MIT
// Vectorise: removes VECTOR ranges. Every node that depends on one becomes a value of shape
// (lanes,).
//
// A load or store becomes one vector access if the index steps by 1 or -1 from lane to lane. A load
// becomes a scalar load if the index is the same for all lanes, and a few vector loads and shuffles
// if it steps by up to kSmallStride. Else there is one access per lane. A reduction over a
// VECTOR range accumulates a vector of partial results and joins its lanes at the end
// (join_lanes.h).
#pragma once
#include <optional>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::codegen {

inline constexpr int64_t kSmallStride = 4;

// sink without VECTOR ranges. REQUIRES: no value depends on two VECTOR ranges (ApplyOpts).
absl::StatusOr<ir::UOp> Vectorise(ir::UOpContext& ctx, ir::UOp sink);

// The stride of `index` along `range`: its difference between consecutive values of `range`.
// nullopt if the difference is not constant, or not provably so.
std::optional<int64_t> StrideAlong(ir::UOpContext& ctx, ir::UOp index, ir::UOp range);

}  // namespace uopd::codegen
