// SPDX-License-Identifier: MIT
// How many runs there are now, and for how long there was at least one. Thread-safe.
#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

#include "core/base/mutex.h"
#include "core/base/telemetry/trace.h"

namespace uopd::engine {

class BusyTime {
 public:
  void Begin() UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (runs_.fetch_add(1, std::memory_order_relaxed) == 0) since_ns_ = NowNs();
  }
  void End() UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (runs_.fetch_sub(1, std::memory_order_relaxed) == 1) busy_ns_ += NowNs() - since_ns_;
  }
  int runs() const { return runs_.load(std::memory_order_relaxed); }

  // The busy time since the last Take, with that of the runs that go on.
  int64_t TakeNs() UOPD_EXCLUDES(mu_) {
    const MutexLock lock(mu_);
    if (runs() > 0) {
      const int64_t now = NowNs();
      busy_ns_ += now - std::exchange(since_ns_, now);
    }
    return std::exchange(busy_ns_, 0);
  }

 private:
  Mutex mu_;
  std::atomic<int> runs_{0};  // changes under the lock, is read without
  int64_t since_ns_ UOPD_GUARDED_BY(mu_) = 0;
  int64_t busy_ns_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd::engine
