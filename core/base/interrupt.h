// SPDX-License-Identifier: MIT
// Tells long work that nobody needs its result any more.
//
// A phase that may run long is given an Interrupt and polls it in its loops. Most polls only count
// down an integer. When the countdown ends, the poll *looks*: it reads the clock and calls
// WorkLimits::cancelled. The number of polls between two looks adapts to the time that they took,
// so that there is a look about every 100 us of work, however long the work between two polls
// takes.
//
//   quiet --deadline passed or cancelled() at a look--> raised, for good
//
// Work that finds its Interrupt raised stops as soon as its data is consistent, and its caller
// returns status(). The unfinished result is dropped and never kept in a cache.
//
// Used by one thread at a time. `cancelled` is called on that thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <utility>

#include "core/base/status.h"
#include "core/base/work_limits.h"

namespace uopd {

class Interrupt {
 public:
  using Clock = WorkLimits::Clock;

  explicit Interrupt(WorkLimits limits) : limits_(std::move(limits)), looked_(Clock::now()) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True once raised. `steps` is the amount of work since the last poll, in steps of about 100 ns:
  // a loop whose iterations take 10 us passes 100.
  bool Poll(int32_t steps = 1) {
    left_ -= steps;
    if (left_ > 0) [[likely]]
      return false;
    return Look();
  }

  // Looks now. For use after a pass, and before work that cannot be interrupted.
  absl::Status Check() {
    Look();
    return status_;
  }

  bool raised() const { return !status_.ok(); }
  // OK, CANCELLED or DEADLINE_EXCEEDED: the result of the last look.
  const absl::Status& status() const { return status_; }

  // From now on every poll looks. For tests that count polls.
  void LookAtEveryPoll() { interval_ = left_ = 1, fixed_ = true; }

 private:
  static constexpr int32_t kFirstInterval = 16;
  // A graph rewrite polls every 100 ns. A longer interval would make the next look too late if
  // iterations suddenly become slower.
  static constexpr int32_t kLongestInterval = 512;

  bool Look();

  const WorkLimits limits_;
  Clock::time_point looked_;
  int32_t left_ = kFirstInterval;      // steps until the next look
  int32_t interval_ = kFirstInterval;  // steps between two looks
  bool fixed_ = false;
  absl::Status status_;
};

}  // namespace uopd
