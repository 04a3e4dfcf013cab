// SPDX-License-Identifier: MIT
// Wakes the threads of this process that wait for a change in the cache.
//
// Other processes cannot ring the bell, so a waiter also looks from time to time. Thread-safe.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>

#include "cache/base/wait/wait.h"
#include "core/base/mutex.h"
#include "core/base/work_limits.h"

namespace uopd::cache {

class Bell {
 public:
  // The pause between two looks of someone who has waited for `waited`. A look may be a question to
  // another machine, so long waits cost few of them: they last up to a sixteenth longer, or a
  // quarter of a second.
  static constexpr std::chrono::microseconds PauseAfter(std::chrono::microseconds waited) {
    return std::clamp<std::chrono::microseconds>(waited / 16, kPoll,
                                                 std::chrono::milliseconds(250));
  }
  static constexpr std::chrono::milliseconds kPoll{10};  // how soon a cancellation is noticed

  void Ring() UOPD_EXCLUDES(mu_);
  // Calls `look` until it returns true or the limits are reached. `look` runs without a lock.
  WatchOutcome WaitFor(const WorkLimits& limits, const std::function<bool(WatchOutcome*)>& look)
      UOPD_EXCLUDES(mu_);

 private:
  Mutex mu_;
  std::condition_variable cv_;
  uint64_t rings_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::cache
