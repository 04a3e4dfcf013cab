// SPDX-License-Identifier: MIT
// A graph whose reads of stored states are computed instead of loaded.
//
// The state of a slot that AFTER(x, STOREs) stands for exists in memory only if those STOREs, and
// no others, can have happened at some time: not if a STORE that it lacks must come before one that
// it holds. Such a state is x with the stored values in place of what they overwrite, as an
// expression. What is read from slots is then only what they held before the run, and an order of
// the kernels always exists: copies of that first.
//
// It computes more than loading would, so it is for graphs that have no order otherwise.
#pragma once
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::schedule {

// RESOURCE_EXHAUSTED where views of views are stored through so often that the graph would grow out
// of proportion. REQUIRES: `order` is a graph without MULTI, sources first, whose STOREs go through
// no EXPAND and no PAD.
absl::StatusOr<ir::UOp> ForwardStates(ir::UOpContext& ctx, const std::vector<ir::UOp>& order);

}  // namespace uopd::schedule
