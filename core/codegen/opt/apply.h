// SPDX-License-Identifier: MIT
// Scheduling decisions applied to a kernel graph: ranges are split, nothing else changes.
#pragma once
#include <span>
#include <vector>

#include "core/base/status.h"
#include "core/codegen/codegen.h"

namespace uopd::codegen {

// The ranges that opts speak of: every RANGE of the kernel, by axis id. Their numbers never change.
std::vector<ir::UOp> Axes(const ir::UOpContext& ctx, ir::UOp sink);

// The kernel with every opt applied in order, ranges of one iteration replaced by 0 and axis ids
// dense again. An amount that does not divide its axis pads it: loads and stores beyond the end are
// gated and reductions see their identity there. INVALID_ARGUMENT names the opt that does not fit
// or says that copies take too much staged memory; RESOURCE_EXHAUSTED if the kernel does without
// opts.
absl::StatusOr<ir::UOp> ApplyOpts(ir::UOpContext& ctx, ir::UOp sink, const Target& target,
                                  std::span<const Opt> opts);

}  // namespace uopd::codegen
