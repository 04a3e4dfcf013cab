// SPDX-License-Identifier: MIT
// AnswerTimes: whether a server that answers is too far away, or too busy, for questions that a request waits for.
//
// A new kernel costs about four questions: a lookup, the lease, a second look and the fence. A server that takes more than half of a
// question's budget costs each new kernel two budgets and more, for ever, and the circuit breaker sees nothing of it: the answers
// that come in time, and those of patient questions, keep it closed. So answers are counted: when kMajority more of them came late
// than in time, the server is too slow for requests; when as many more came in time, it is not any more. An answer that never
// came says nothing here: that is the breaker's.
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "core/base/mutex.h"

namespace uopd::cache {

class AnswerTimes {
 public:
  static constexpr int kMajority = 4;

  // `budget`: of a question that a request waits for.
  explicit AnswerTimes(std::chrono::microseconds budget) : late_(budget / 2) {}

  // An answer to a short question came after so long. True: the verdict changed.
  bool Note(std::chrono::microseconds took) UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    more_late_ = std::clamp(more_late_ + (took > late_ ? 1 : -1), 0, kMajority);
    const bool slow = more_late_ == kMajority || (too_slow_ && more_late_ > 0);
    return too_slow_.exchange(slow) != slow;
  }
  bool too_slow() const { return too_slow_.load(std::memory_order_relaxed); }

 private:
  const std::chrono::microseconds late_;
  Mutex mu_;
  int more_late_ UOPD_GUARDED_BY(mu_) = 0;
  std::atomic<bool> too_slow_{false};
};

}  // namespace uopd::cache
