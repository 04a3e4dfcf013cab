// SPDX-License-Identifier: MIT
#include "cache/base/bell.h"

#include <algorithm>

namespace uopd::cache {

void Bell::Ring() {
  {
    MutexLock lock(mu_);
    ++rings_;
  }
  cv_.notify_all();
}

WatchOutcome Bell::WaitFor(const WaitLimits& limits,
                           const std::function<bool(WatchOutcome*)>& look) {
  for (;;) {
    uint64_t seen;
    {
      MutexLock lock(mu_);
      seen = rings_;  // read before `look` runs, so that a ring during `look` is not lost
    }
    WatchOutcome outcome;
    if (look(&outcome)) return outcome;
    if (limits.cancelled && limits.cancelled()) return WatchOutcome::kCancelled;
    const auto now = std::chrono::steady_clock::now();
    if (now >= limits.deadline) return WatchOutcome::kDeadlineExceeded;
    MutexLock lock(mu_);
    lock.WaitUntil(cv_, std::min(now + kPoll, limits.deadline),
                   [&]() UOPD_REQUIRES(mu_) { return rings_ != seen; });
  }
}

}  // namespace uopd::cache
