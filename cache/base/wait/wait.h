// SPDX-License-Identifier: MIT
// How long a caller of the cache waits, and how waiting ended.
#pragma once
#include <chrono>
#include <functional>

namespace uopd::cache {

using Deadline = std::chrono::steady_clock::time_point;

// The clock of deadlines. A simulation gives its own.
using SteadyFn = std::function<Deadline()>;
inline Deadline SteadyNow() { return std::chrono::steady_clock::now(); }

// `cancelled` is polled on the waiting thread.
struct WaitLimits {
  Deadline deadline = Deadline::max();
  std::function<bool()> cancelled;
};

enum class WatchOutcome { kReady, kLeaseFree, kDeadlineExceeded, kCancelled };

}  // namespace uopd::cache
