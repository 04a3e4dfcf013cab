// SPDX-License-Identifier: MIT
// How long a caller of the cache waits, and how waiting ended.
#pragma once
#include <chrono>
#include <functional>

namespace uopd::cache {

using Deadline = std::chrono::steady_clock::time_point;

// `cancelled` is polled on the waiting thread.
struct WaitLimits {
  Deadline deadline = Deadline::max();
  std::function<bool()> cancelled;
};

enum class WatchOutcome { kReady, kLeaseFree, kDeadlineExceeded, kCancelled };

}  // namespace uopd::cache
