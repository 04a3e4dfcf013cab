// SPDX-License-Identifier: MIT
// Timeline semaphore: a 64-bit value that only grows, or a failure. It orders streams (of one
// device or of several) and the host.
//
// A semaphore that fails keeps the values that it has reached. Whoever waits for a larger value,
// now or later, gets the failure. So a failure travels from the stream that failed to everything
// that waits for that stream, and further to everything that waits for those.
//
// Thread-safe. Shared by those who signal and those who wait. A driver may derive a class that
// carries a native event. The functions for the host below must work in every derived class, since
// a stream of another device uses them to wait.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::devices {

class Semaphore {
 public:
  // OK: the value is reached. Otherwise the reason why the value will never be reached: the failure
  // of the semaphore, or ABORTED when the semaphore is destroyed.
  using Reached = std::function<void(const absl::Status&)>;

  Semaphore() = default;
  virtual ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  uint64_t value() const UOPD_EXCLUDES(mu_);
  // OK unless the semaphore has failed.
  absl::Status failure() const UOPD_EXCLUDES(mu_);
  // Raises the value to `value` and runs, on this thread, the functions that waited for it. Changes
  // nothing if `value` is smaller than the present value or if the semaphore has failed.
  virtual void Signal(uint64_t value) UOPD_EXCLUDES(mu_);
  // Fails the semaphore for good and runs all functions that wait, on this thread. Only the first
  // failure counts. REQUIRES: `why` is not OK.
  virtual void Fail(absl::Status why) UOPD_EXCLUDES(mu_);
  // Blocks the calling thread. Returns the failure of the semaphore, or DEADLINE_EXCEEDED when the
  // value is not reached in time.
  absl::Status Wait(uint64_t value, std::chrono::steady_clock::time_point deadline)
      UOPD_EXCLUDES(mu_);
  // True: the value is reached already; `fn` is neither run nor kept. False: `fn` runs once. If the
  // semaphore has failed, `fn` runs on this thread before ReachedOr returns. Otherwise it runs on
  // the thread that signals the value, fails the semaphore or destroys it. No locks are held while
  // `fn` runs. `fn` may use this semaphore unless the semaphore is being destroyed.
  bool ReachedOr(uint64_t value, Reached fn) UOPD_EXCLUDES(mu_);

 private:
  struct Waiter {
    uint64_t value;
    Reached fn;
  };

  mutable Mutex mu_;
  std::condition_variable raised_;
  uint64_t value_ UOPD_GUARDED_BY(mu_) = 0;
  absl::Status failure_ UOPD_GUARDED_BY(mu_);
  std::vector<Waiter> waiters_ UOPD_GUARDED_BY(mu_);  // in order of arrival
};

// A point of a timeline. It can be waited for or signalled.
struct TimePoint {
  std::shared_ptr<Semaphore> semaphore;
  uint64_t value = 0;
};

}  // namespace uopd::devices
