// SPDX-License-Identifier: MIT
// The question that long work asks again and again: does anybody still want this?
//
// A phase that may run long is given an Interrupt and polls it in its loops. A poll is a countdown
// of one integer; the clock and the callback are looked at about every 100 us of work, however long
// the work between two polls takes: the number of polls between two looks follows the time that
// they took.
//
//   quiet --deadline passed or cancelled() at a look--> raised, for good
//
// Work that finds it raised stops as soon as what it has is consistent, and its caller returns
// status(). What it made is not finished: it is dropped and never kept in a cache.
//
// Used by one thread at a time. `cancelled` is called on that thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>

#include "core/base/status.h"

namespace uopd {

class Interrupt {
 public:
  using Clock = std::chrono::steady_clock;

  // `maybe_cancelled` null: only the deadline ends the work.
  explicit Interrupt(Clock::time_point deadline, std::function<bool()> maybe_cancelled = nullptr)
      : deadline_(deadline), cancelled_(std::move(maybe_cancelled)), looked_(Clock::now()) {}
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // True once raised. `steps` is how many usual ones the work since the last poll was: a loop whose
  // turns cost 10 us says 100.
  bool Poll(int32_t steps = 1) {
    left_ -= steps;
    if (left_ > 0) [[likely]]
      return false;
    return Look();
  }

  // Looks at once: after a pass, and before something that cannot be left.
  absl::Status Check() {
    Look();
    return status_;
  }

  bool raised() const { return !status_.ok(); }
  // OK, CANCELLED or DEADLINE_EXCEEDED: as the last look found it.
  const absl::Status& status() const { return status_; }

  // Every poll looks from now on: for tests that count them.
  void LookAtEveryPoll() { interval_ = left_ = 1, fixed_ = true; }

 private:
  static constexpr int32_t kFirstInterval = 16;
  // A graph rewrite polls every 100 ns. More would be late when turns become slower suddenly.
  static constexpr int32_t kLongestInterval = 512;

  bool Look();

  const Clock::time_point deadline_;
  const std::function<bool()> cancelled_;
  Clock::time_point looked_;
  int32_t left_ = kFirstInterval;      // steps until the next look
  int32_t interval_ = kFirstInterval;  // steps between two looks
  bool fixed_ = false;
  absl::Status status_;
};

// What such work returns where it has nothing to return: the status of whoever raised.
absl::Status CancelledByCaller();
absl::Status DeadlinePassed();

// True for the two codes: they are about the caller and say nothing of the work.
inline bool IsAboutCaller(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace uopd
