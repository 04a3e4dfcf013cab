// SPDX-License-Identifier: MIT
#include "server/engine/base/timer.h"

#include <algorithm>

namespace uopd::engine {

Timer::~Timer() {
  {
    MutexLock lock(mu_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Timer::Id Timer::At(Clock::time_point when, absl::AnyInvocable<void()> fn) {
  bool first;
  Id id;
  {
    MutexLock lock(mu_);
    id = {when, next_++};
    due_.emplace(id, std::move(fn));
    first = due_.begin()->first == id;
  }
  if (first) changed_.notify_all();
  return id;
}

void Timer::Drop(const Id& id) {
  // Destroying the function may take long, so it is not done under the lock.
  absl::AnyInvocable<void()> dropped;
  MutexLock lock(mu_);
  const auto it = due_.find(id);
  if (it == due_.end()) return;
  dropped = std::move(it->second);
  due_.erase(it);
}

size_t Timer::size() const {
  MutexLock lock(mu_);
  return due_.size();
}

void Timer::Work() {
  for (;;) {
    absl::AnyInvocable<void()> fn;
    {
      MutexLock lock(mu_);
      for (;;) {
        if (stop_) return;
        const auto now = Clock::now();
        if (!due_.empty() && due_.begin()->first.first <= now) break;
        // Limit the time: a distant time overflows when the library converts it to the system's
        // clock.
        const auto longest = now + std::chrono::hours(1);
        const auto until = due_.empty() ? longest : std::min(longest, due_.begin()->first.first);
        const Id next = due_.empty() ? Id() : due_.begin()->first;
        const bool empty = due_.empty();
        lock.WaitUntil(changed_, until, [&]() UOPD_REQUIRES(mu_) {
          return stop_ || due_.empty() != empty || (!empty && due_.begin()->first != next);
        });
      }
      fn = std::move(due_.begin()->second);
      due_.erase(due_.begin());
    }
    fn();
  }
}

}  // namespace uopd::engine
