// SPDX-License-Identifier: MIT
// Timeline semaphore: a 64-bit value that only grows. Orders streams, of one device or of several,
// and the host.
//
// Thread-safe. Shared by whoever signals and whoever waits. Drivers may subclass it to carry a
// native event; the host side below must always work, since it is what another device's stream
// waits on.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::devices {

class Semaphore {
 public:
  Semaphore() = default;
  // Calls what still waits with `reached` false.
  virtual ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  uint64_t value() const UOPD_EXCLUDES(mu_);
  // Raises the value to `value` (a smaller one changes nothing) and runs what waited for it, on
  // this thread.
  virtual void Signal(uint64_t value) UOPD_EXCLUDES(mu_);
  // Blocks the host. DEADLINE_EXCEEDED when the value is not reached in time.
  absl::Status Wait(uint64_t value, std::chrono::steady_clock::time_point deadline)
      UOPD_EXCLUDES(mu_);
  // True: the value is reached already and `fn` is not kept. False: `fn` runs once, on the thread
  // that signals the value (true) or destroys the semaphore before (false). `fn` runs without locks
  // held and may use this semaphore in the first case.
  bool ReachedOr(uint64_t value, std::function<void(bool reached)> fn) UOPD_EXCLUDES(mu_);

 private:
  struct Waiter {
    uint64_t value;
    std::function<void(bool)> fn;
  };

  mutable Mutex mu_;
  std::condition_variable raised_;
  uint64_t value_ UOPD_GUARDED_BY(mu_) = 0;
  std::vector<Waiter> waiters_ UOPD_GUARDED_BY(mu_);  // in order of arrival
};

}  // namespace uopd::devices
