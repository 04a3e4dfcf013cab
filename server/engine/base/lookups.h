// SPDX-License-Identifier: MIT
// Counts looks into the stores of the cache (uopd_cache_requests_total).
#pragma once
#include <string>

#include "cache/store.h"

namespace uopd::engine {

// By what was found.
void CountLookup(const std::string& store, cache::GetOutcome outcome);
// A value that the store gave and that is no use.
void CountCorrupt(const std::string& store);

}  // namespace uopd::engine
