// SPDX-License-Identifier: MIT
// Timeline semaphore: a 64-bit value that only grows, or a failure. Orders streams, of one device
// or of several, and the host.
//
// A semaphore that fails keeps the values that it has reached; whoever waits for more, now or
// later, gets the failure. So a failure travels from the stream that has it to all who wait for
// that stream, and to those who wait for them.
//
// Thread-safe. Shared by whoever signals and whoever waits. Drivers may subclass it to carry a
// native event; the host side below must always work, since it is what another device's stream
// waits on.
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
  // OK: the value is reached. Otherwise why it never will be: what the semaphore failed with, or
  // ABORTED when it is destroyed.
  using Reached = std::function<void(const absl::Status&)>;

  Semaphore() = default;
  virtual ~Semaphore();
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  uint64_t value() const UOPD_EXCLUDES(mu_);
  // OK unless the semaphore has failed.
  absl::Status failure() const UOPD_EXCLUDES(mu_);
  // Raises the value to `value` and runs what waited for it, on this thread. Changes nothing if the
  // value is smaller or the semaphore has failed.
  virtual void Signal(uint64_t value) UOPD_EXCLUDES(mu_);
  // Fails the semaphore for good and runs what waits, on this thread. Only the first failure
  // counts. REQUIRES: `why` is not OK.
  virtual void Fail(absl::Status why) UOPD_EXCLUDES(mu_);
  // Blocks the host. The failure of the semaphore; DEADLINE_EXCEEDED when the value is not reached
  // in time.
  absl::Status Wait(uint64_t value, std::chrono::steady_clock::time_point deadline)
      UOPD_EXCLUDES(mu_);
  // True: the value is reached already, and `fn` is neither run nor kept. False: `fn` runs once; on
  // this thread and before the return if the semaphore has failed, otherwise on the thread that
  // signals the value, fails the semaphore or destroys it. `fn` runs without locks held, and may
  // use this semaphore unless it is being destroyed.
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

// A point of a timeline: to wait for, or to signal.
struct TimePoint {
  std::shared_ptr<Semaphore> semaphore;
  uint64_t value = 0;
};

}  // namespace uopd::devices
