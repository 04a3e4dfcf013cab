// SPDX-License-Identifier: MIT
#include "cache/base/wait/bell.h"

#include <algorithm>

namespace uopd::cache {

void Bell::Ring() {
  {
    MutexLock lock(mu_);
    ++rings_;
  }
  cv_.notify_all();
}

WatchOutcome Bell::WaitFor(const WorkLimits& limits,
                           const std::function<bool(WatchOutcome*)>& look) {
  const auto begin = std::chrono::steady_clock::now();
  auto look_at = begin;
  uint64_t seen = 0;
  for (;;) {
    auto now = std::chrono::steady_clock::now();
    uint64_t rings;
    {
      MutexLock lock(mu_);
      rings = rings_;  // read before `look` runs, so that a ring during `look` is not lost
    }
    if (now >= look_at || rings != seen) {
      seen = rings;
      WatchOutcome outcome;
      if (look(&outcome)) return outcome;
      now = std::chrono::steady_clock::now();
      look_at =
          now + PauseAfter(std::chrono::duration_cast<std::chrono::microseconds>(now - begin));
    }
    if (limits.IsCancelled()) return WatchOutcome::kCancelled;
    if (now >= limits.deadline) return WatchOutcome::kDeadlineExceeded;
    MutexLock lock(mu_);
    lock.WaitUntil(cv_, std::min(now + kPoll, limits.deadline),
                   [&]() UOPD_REQUIRES(mu_) { return rings_ != seen; });
  }
}

}  // namespace uopd::cache
