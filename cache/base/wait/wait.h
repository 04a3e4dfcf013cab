// SPDX-License-Identifier: MIT
// How long a caller of the cache waits, and how waiting ended.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

namespace uopd::cache {

using Deadline = std::chrono::steady_clock::time_point;

// The clock of deadlines. A simulation gives its own.
using SteadyFn = std::function<Deadline()>;
inline Deadline SteadyNow() { return std::chrono::steady_clock::now(); }

enum class WatchOutcome { kReady, kLeaseFree, kDeadlineExceeded, kCancelled };

// Patience: how long somebody waits for what another one computes, before he computes it himself.
//
// Who computes renews its lease, so a waiter cannot tell an owner who works from one who never
// ends, or from a server that lies. Each wait therefore has a longest time. A wait that used it up
// was in vain, and most likely the next one would be, too: so it halves the time of those after it,
// down to a 64th. A wait that brought the value makes it whole again. Thread-safe.
class Patience {
 public:
  static constexpr int kMostHalvings = 6;

  std::chrono::microseconds Of(std::chrono::microseconds longest) const {
    return longest / (1 << std::min(vain_.load(std::memory_order_relaxed), kMostHalvings));
  }
  void WaitedInVain() {
    if (vain_.load() < kMostHalvings) ++vain_;
  }
  void GotIt() { vain_.store(0); }

 private:
  std::atomic<int> vain_{0};
};

}  // namespace uopd::cache
