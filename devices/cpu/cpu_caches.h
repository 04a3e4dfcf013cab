// SPDX-License-Identifier: MIT
// Sizes of the processor's data caches, as Linux shows them.
#pragma once
#include <string>
#include <vector>

#include "core/base/target/target.h"

namespace uopd::devices::cpu {

// Data caches of one processor, nearest first. `folder`: its "cache" folder in sysfs. Empty if the
// system does not say, as in some containers.
std::vector<CacheLevel> ReadCaches(const std::string& folder);

// The data caches of the first processor that this process may run on.
std::vector<CacheLevel> ReadCaches();

}  // namespace uopd::devices::cpu
