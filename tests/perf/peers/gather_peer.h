// SPDX-License-Identifier: MIT
// A hand-written gather of rows: the limit of what memory allows at random places.
#pragma once
#include <cstdint>
#include <vector>

#include "tests/perf/peers/peers.h"

namespace uopd::perf {

// Copies `rows` rows of `columns` floats from uniformly random rows of a table with as many rows,
// which are prefetched; with ordinary stores and with non-temporal ones. `columns` is a multiple of
// 16.
std::vector<PeerRun> GatherPeers(int64_t rows, int64_t columns, int threads);

}  // namespace uopd::perf
