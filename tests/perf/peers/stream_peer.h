// SPDX-License-Identifier: MIT
// Hand-written loops that move the same bytes as an operation: the limit of what memory allows.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/perf/peers/peers.h"

namespace uopd::perf {

// Reads `reads` arrays of n floats and writes their sum to `writes` arrays (0 or 1), with ordinary
// stores and with non-temporal ones.
std::vector<PeerRun> StreamPeers(int reads, int writes, int64_t n, int threads);

}  // namespace uopd::perf
