// SPDX-License-Identifier: MIT
// The kernels of a tuning operation, as a client knows them: each message of WatchTune has only the
// points that are new.
//
// Bounded, whatever the daemon sends: of a long search some points are kept, among them those that
// were the fastest when they came, and the last one.
#pragma once
#include <cstddef>

#include "uopd/v1/uopd.pb.h"

namespace uopd::client {

inline constexpr size_t kMaxTunePoints = 512;

// `known` becomes `now` with the points of both. Points of an earlier search go.
void UpdateKernel(v1::TunedKernel& known, const v1::TunedKernel& now);

}  // namespace uopd::client
