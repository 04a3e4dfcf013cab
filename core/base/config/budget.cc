// SPDX-License-Identifier: MIT
#include "core/base/config/budget.h"

#include <algorithm>

namespace uopd {

MemoryBudget BudgetOf(const Config& config, const ProcessLimits& limits) {
  MemoryNeeds needs;
  needs.limit_bytes = limits.memory_bytes();
  needs.processors = limits.processors();
  needs.compile_threads = static_cast<int>(config.compile_threads());
  needs.tune_workers = static_cast<int>(config.tune_workers());
  needs.upgrades = config.compile_fast_tier();
  needs.devices = 1 + static_cast<int>(std::ranges::count(config.device_list(), ','));
  if (config.cache_level() == 0) needs.cache_bytes = config.cache_max_bytes();
  return MemoryBudget::Of(needs);
}

}  // namespace uopd
