// SPDX-License-Identifier: MIT
// Memory planning: gives every temporary an offset in the arena of its device. Last step of
// scheduling; the order of the items is fixed.
//
// Invariant: two temporaries share bytes only if their lifetimes do not overlap. A temporary lives
// from the item that writes it to the last item that uses it.
//
// Algorithm: greedy. Each temporary in turn gets the lowest offset that is free over its whole
// lifetime. Three orders are tried and the best result is kept; the order by size is that of
// Pisarchyk and Lee, "Efficient memory management for deep neural net inference" (2020). If there
// are thousands of temporaries, only one order is used, that of their births, and each gets the
// smallest gap.
#pragma once
#include "core/schedule/schedule.h"

namespace uopd::schedule {

inline constexpr int64_t kTemporaryAlignment = 64;  // bytes

// Drops temporaries that no item uses; sets Temporary::offset and Schedule::arenas.
void PlanMemory(Schedule& schedule);

}  // namespace uopd::schedule
