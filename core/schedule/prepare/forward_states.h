// SPDX-License-Identifier: MIT
// Rewrites a graph so that it reads slots only as they were before the run: every later state of a
// slot is computed as an expression instead of loaded.
//
// The state of a slot that AFTER(x, STOREs) stands for is in memory at some moment only if exactly
// these STOREs can have run by then. That is impossible if a STORE outside of the state must run
// before one that is part of it. As an expression, the state is x with the stored values in place
// of the elements that they overwrite. Then an order of the kernels always exists: first copy what
// the slots held before the run, then store.
//
// The result computes more than the original loads, so the pipeline uses this only for graphs that
// have no order of kernels otherwise.
#pragma once
#include <vector>

#include "core/base/status.h"
#include "core/ir/context.h"

namespace uopd::schedule {

// RESOURCE_EXHAUSTED if the result would have many more movement ops than the graph has nodes: long
// chains of views, stored through often. REQUIRES: `order` is a graph without MULTI, sources first;
// no target of a STORE is a view through EXPAND or PAD.
absl::StatusOr<ir::UOp> ForwardStates(ir::UOpContext& ctx, const std::vector<ir::UOp>& order);

}  // namespace uopd::schedule
