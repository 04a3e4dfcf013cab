// SPDX-License-Identifier: MIT
// Offsets for temporaries: those whose lives do not overlap share bytes of one arena per device.
#pragma once
#include "core/schedule/schedule.h"

namespace uopd::schedule {

inline constexpr int64_t kTemporaryAlignment = 64;  // bytes

// Drops temporaries that no item touches, fills Temporary::offset and Schedule::arenas. A temporary
// lives from the item that writes it to the last one that uses it. Greedy, each at the lowest
// offset free over its whole life, in three orders of which the best is kept ("Efficient memory
// management for deep neural net inference", Pisarchyk and Lee, 2020, has the one by size). Where
// there are thousands: in order of birth, each in the smallest gap.
void PlanMemory(Schedule& schedule);

}  // namespace uopd::schedule
