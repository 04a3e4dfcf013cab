// SPDX-License-Identifier: MIT
#include "uopd/future.h"

#include <chrono>
#include <condition_variable>
#include <vector>

#include "core/base/mutex.h"

namespace uopd::client {

struct Future::State {
  std::weak_ptr<Driver> driver;  // never changes
  Mutex mutex;
  std::condition_variable wake;
  bool done UOPD_GUARDED_BY(mutex) = false;
  absl::Status status UOPD_GUARDED_BY(mutex);
  std::vector<std::function<void(const absl::Status&)>> then UOPD_GUARDED_BY(mutex);
};

// Most tensors have such a future until they are computed, so all of them share one state.
Future::Future() {
  static const std::shared_ptr<State>& done = *new std::shared_ptr<State>([] {
    auto state = std::make_shared<State>();
    MutexLock lock(state->mutex);
    state->done = true;
    return state;
  }());
  state_ = done;
}

Future::Future(absl::Status status) : state_(std::make_shared<State>()) {
  MutexLock lock(state_->mutex);
  state_->done = true;
  state_->status = std::move(status);
}

bool Future::Done() const {
  MutexLock lock(state_->mutex);
  return state_->done;
}

absl::Status Future::Wait() const {
  State& s = *state_;
  if (const auto driver = s.driver.lock())
    driver->DriveUntil([this] { return Done(); }, absl::InfiniteFuture());
  MutexLock lock(s.mutex);
  lock.Wait(s.wake, [&]() UOPD_REQUIRES(s.mutex) { return s.done; });
  return s.status;
}

bool Future::WaitFor(absl::Duration time) const {
  State& s = *state_;
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(time);
  if (const auto driver = s.driver.lock())
    driver->DriveUntil([this] { return Done(); }, absl::Now() + time);
  MutexLock lock(s.mutex);
  return lock.WaitUntil(s.wake, until, [&]() UOPD_REQUIRES(s.mutex) { return s.done; });
}

void Future::Then(std::function<void(const absl::Status&)> f) const {
  absl::Status status;
  {
    MutexLock lock(state_->mutex);
    if (!state_->done) {
      state_->then.push_back(std::move(f));
      return;
    }
    status = state_->status;
  }
  f(status);
}

std::weak_ptr<Driver> Future::driver() const { return state_->driver; }

Promise::Promise(std::weak_ptr<Driver> driver) : state_(std::make_shared<Future::State>()) {
  state_->driver = std::move(driver);
}

void Promise::Set(const absl::Status& status) const {
  std::vector<std::function<void(const absl::Status&)>> then;
  {
    MutexLock lock(state_->mutex);
    if (state_->done) return;
    state_->done = true;
    state_->status = status;
    then.swap(state_->then);
  }
  state_->wake.notify_all();
  for (const auto& f : then) f(status);
}

}  // namespace uopd::client
