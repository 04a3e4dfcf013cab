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
// Of a value that its Decode refused. What a later version of the daemon wrote
// (FAILED_PRECONDITION) is no damage: it is set aside, with a line in the log. All else counts as
// corrupt.
void Refuse(const std::string& store, const absl::Status& why);

}  // namespace uopd::engine
