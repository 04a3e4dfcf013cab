// SPDX-License-Identifier: MIT
// Calls functions at given times, on one thread of its own. It serves those who wait without a
// thread.
//
// Thread-safe. The functions must be short. The destructor drops functions that are not due.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"

namespace uopd::engine {

class Timer {
 public:
  using Clock = std::chrono::steady_clock;
  using Id = std::pair<Clock::time_point, uint64_t>;

  Timer() : thread_([this] { Work(); }) {}
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  Id At(Clock::time_point when, absl::AnyInvocable<void()> fn) UOPD_EXCLUDES(mu_);
  // Drops the function. No effect if it was called already; it may be running.
  void Drop(const Id& id) UOPD_EXCLUDES(mu_);
  size_t size() const UOPD_EXCLUDES(mu_);  // number of functions that wait

 private:
  void Work() UOPD_EXCLUDES(mu_);

  mutable Mutex mu_;
  std::condition_variable changed_;
  std::map<Id, absl::AnyInvocable<void()>> due_ UOPD_GUARDED_BY(mu_);
  uint64_t next_ UOPD_GUARDED_BY(mu_) = 0;
  bool stop_ UOPD_GUARDED_BY(mu_) = false;
  std::thread thread_;  // declared last: the thread uses the other members
};

}  // namespace uopd::engine
