// SPDX-License-Identifier: MIT
// What the cache forgets first: least recently used, where dear and small entries count as used
// later than they were.
//
// score = last use + kHeadStartUs * log2(1 + microseconds of cost per KiB). The lowest score goes
// first. Compared with GDSF, time takes the place of its inflation term: nothing has to be updated
// when something is evicted, and several processes agree without talking. Doubling the cost per KiB
// buys one hour; a kernel of 4 KiB that took 1 s to compile outlives a copy of equal size that took
// 1 ms by ten hours.
#pragma once
#include <cstdint>

namespace uopd::cache {

inline constexpr int64_t kHourUs = 3600 * int64_t{1000000};
inline constexpr int64_t kHeadStartUs = kHourUs;
// How often a row's last use is written, so that reading does not become writing.
inline constexpr int64_t kTouchIntervalUs = kHourUs;

int64_t KeepScore(int64_t last_used_us, int64_t cost_us, int64_t size_bytes);
// Eviction removes rows until this much is left, so that it runs once in a while rather than at
// every put.
constexpr int64_t LowWater(int64_t max_bytes) { return max_bytes - max_bytes / 10; }

}  // namespace uopd::cache
