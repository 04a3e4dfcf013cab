// SPDX-License-Identifier: MIT
// Counts looks into the stores of the cache (uopd_cache_requests_total).
#pragma once
#include <string>

#include "cache/store.h"

namespace uopd::engine {

// Counts one lookup by its outcome.
void CountLookup(const std::string& store, cache::GetOutcome outcome);
// Counts a value that the store returned but that cannot be used.
void CountCorrupt(const std::string& store);

}  // namespace uopd::engine
