// SPDX-License-Identifier: MIT
// Forgets what failed before, so that it is tried again: failures that this process remembers, and
// jobs in quarantine.
#pragma once
#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/base/recent_failures.h"
#include "server/engine/tune/workers.h"

namespace uopd::engine {

// The one entry whose id (in hexadecimal) starts with `id`, in all lists that have it; or all
// entries if `id` is empty. Returns how many were removed. `maybe_workers`: null if the daemon has
// none. Nothing is removed with an error. NOT_FOUND: no such entry. INVALID_ARGUMENT: several ids
// start with `id`, or `id` is not hexadecimal. Thread-safe.
absl::StatusOr<size_t> ClearFailures(RecentFailures& failures, Workers* maybe_workers,
                                     std::string_view id);

}  // namespace uopd::engine
