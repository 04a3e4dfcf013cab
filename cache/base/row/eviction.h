// SPDX-License-Identifier: MIT
// Which entries the cache evicts first: the least recently used ones, where entries that are small
// and expensive to compute count as used later than they were.
//
// score = last use + kHeadStartUs * log2(1 + microseconds of cost per KiB). The entry of the lowest
// score is evicted first. Compared with GDSF, time takes the place of the inflation term. So an
// eviction updates no other entry, and several processes agree without communication. Doubling the
// cost per KiB is worth one hour: a kernel of 4 KiB that took 1 s to compile outlives one of equal
// size that took 1 ms by ten hours.
#pragma once
#include <cstdint>

namespace uopd::cache {

inline constexpr int64_t kHourUs = 3600 * int64_t{1000000};
inline constexpr int64_t kHeadStartUs = kHourUs;
// A row's last use is written at most this often, so that most reads cause no write.
inline constexpr int64_t kTouchIntervalUs = kHourUs;

int64_t KeepScore(int64_t last_used_us, int64_t cost_us, int64_t size_bytes);
// Eviction removes rows until this many bytes are left, so that it does not run at every put.
constexpr int64_t LowWater(int64_t max_bytes) { return max_bytes - max_bytes / 10; }

}  // namespace uopd::cache
