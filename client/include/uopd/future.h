// SPDX-License-Identifier: MIT
// Future: the end of something that was sent to the daemon. Promise: the other side of it.
//
// Both are handles of one state; copies are the same future. All functions may be called from any
// thread at any time.
#pragma once
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace uopd::client {

// Does work that ends futures. A thread that waits for one may do it instead of sleeping, which
// spares the switch between threads.
class Driver {
 public:
  virtual ~Driver() = default;
  // Works until done() is true or the time is over, or returns before if another thread works.
  virtual void DriveUntil(const std::function<bool()>& done, absl::Time until) = 0;
};

class Future {
 public:
  Future();  // it is done, and OK
  // A future that is done.
  explicit Future(absl::Status status);

  bool Done() const;
  // Waits until it is done, and returns how it ended.
  absl::Status Wait() const;
  // The same, for at most `time`. False: it is not done yet.
  bool WaitFor(absl::Duration time) const;
  // Calls f with the status, once: at once if the future is done, otherwise on the thread that ends
  // it. `f` must be quick and must not wait for other futures.
  void Then(std::function<void(const absl::Status&)> f) const;
  // What ends this future. A promise that depends on the future has the same driver.
  std::weak_ptr<Driver> driver() const;

 private:
  friend class Promise;
  struct State;
  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

class Promise {
 public:
  explicit Promise(std::weak_ptr<Driver> driver = {});
  Future future() const { return Future(state_); }
  // Ends the future. Calls after the first one have no effect.
  void Set(const absl::Status& status) const;

 private:
  std::shared_ptr<Future::State> state_;
};

}  // namespace uopd::client
