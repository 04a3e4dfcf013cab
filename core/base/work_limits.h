// SPDX-License-Identifier: MIT
// WorkLimits: when work ends although it is not done. One type says it from a request down to a
// worker process and to a wait for the cache; only runs on devices have limits of their own
// (RunTerms in server/engine/run).
//
//   what ends a request     Cancellation (server/engine/base): a flag, which also calls a watcher
//   what says so to others  WorkLimits: a deadline, and a function that anybody may ask
//   what asks in a loop     Interrupt (core/base/interrupt.h): asks every 100 us, however often it
//                           is polled
//
// A value: copies ask the same function. `cancelled` is called on the threads that work or wait. It
// takes no lock that these hold.
#pragma once
#include <chrono>
#include <functional>

#include "core/base/status.h"

namespace uopd {

struct WorkLimits {
  using Clock = std::chrono::steady_clock;
  // How often a thread that waits asks `cancelled`.
  static constexpr std::chrono::milliseconds kPoll{10};

  Clock::time_point deadline = Clock::time_point::max();
  std::function<bool()> cancelled{};  // null: never cancelled

  bool IsCancelled() const { return cancelled && cancelled(); }
  // OK while somebody wants the result. Otherwise CANCELLED or DEADLINE_EXCEEDED.
  absl::Status Check() const;
  // When a thread that waits has to call Check again, at the latest.
  Clock::time_point NextCheck() const;
  // Limits that end the work for the reasons of this object, and when `ended` returns true.
  WorkLimits Or(std::function<bool()> ended) const;
};

// The two statuses of work that was ended. Also for code that ends for the same reason in another
// way.
absl::Status CancelledByCaller();
absl::Status DeadlinePassed();

// True for the codes of these two statuses. They are about the caller and say nothing about the
// work.
inline bool IsAboutCaller(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace uopd
