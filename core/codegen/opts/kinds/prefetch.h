// SPDX-License-Identifier: MIT
// PREFETCH: a load asks the caches for what it will read later.
#pragma once
#include "core/codegen/opts/plan_state.h"

namespace uopd::codegen {

// The distance in elements from what a load reads to what it prefetches; 0: the load prefetches
// nothing. It is the tag of the LOAD from ApplyOpts on.
int64_t PrefetchDistance(const PlanView& view, ir::UOp load);

}  // namespace uopd::codegen
