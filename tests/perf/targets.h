// SPDX-License-Identifier: MIT
// What the figures of single operations, models and cold starts are meant to reach.
#pragma once
#include <string_view>

#include "tests/perf/perf.h"

namespace uopd::perf {

// The least speed that a figure should have, relative to its peer: the peer's time divided by ours.
// 0: it has no target.
double TargetOf(std::string_view name);

// The speed of a figure relative to its peer; 0 without a peer. Figures in units of time are better
// when they are smaller, all others when they are larger.
double SpeedOf(const Measurement& m);

}  // namespace uopd::perf
