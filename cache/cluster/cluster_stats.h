// SPDX-License-Identifier: MIT
// What a daemon counts about the tier that it shares with others. Relaxed atomics, as in cache/base/stats.h.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "cache/cluster/record.h"

namespace uopd::cache {

struct ClusterStats {
  static constexpr size_t kFaults = static_cast<size_t>(RecordFault::kOtherKey) + 1;

  std::atomic<int64_t> hits{0}, misses{0}, unavailable{0};  // of lookups
  std::array<std::atomic<int64_t>, kFaults>
      refused{};  // records that were not taken, by RecordFault
  std::atomic<int64_t> puts{0}, stale_puts{0}, put_errors{0};  // records that were sent
  std::atomic<int64_t> refilled{0};                            // records that the server had lost
  std::atomic<int64_t> dropped{0};                             // rows that did not fit in the queue
  std::atomic<int64_t> announced{0};  // records, by other daemons. Of these:
  std::atomic<int64_t> fetched{0};
  std::atomic<int64_t> spared{0};        // beyond what is fetched in advance; lookups find them
  std::atomic<int64_t> queued_bytes{0};  // gauge
};

}  // namespace uopd::cache
