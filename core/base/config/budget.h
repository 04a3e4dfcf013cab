// SPDX-License-Identifier: MIT
// The division of the memory (core/base/machine/memory_budget.h) that settings ask for.
#pragma once
#include "core/base/config/config.h"
#include "core/base/machine/memory_budget.h"
#include "core/base/machine/process_limits.h"

namespace uopd {

MemoryBudget BudgetOf(const Config& config, const ProcessLimits& limits);

}  // namespace uopd
