// SPDX-License-Identifier: MIT
#include "devices/api/semaphore.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace uopd::devices {

Semaphore::~Semaphore() {
  std::vector<Waiter> left;
  {
    MutexLock lock(mu_);
    left.swap(waiters_);
  }
  for (Waiter& waiter : left) waiter.fn(false);
}

uint64_t Semaphore::value() const {
  MutexLock lock(mu_);
  return value_;
}

void Semaphore::Signal(uint64_t value) {
  std::vector<Waiter> ready;
  {
    MutexLock lock(mu_);
    if (value <= value_) return;
    value_ = value;
    for (Waiter& waiter : waiters_) {
      if (waiter.value <= value) ready.push_back(std::move(waiter));
    }
    std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.value <= value; });
    raised_.notify_all();
  }
  for (Waiter& waiter : ready) waiter.fn(true);
}

absl::Status Semaphore::Wait(uint64_t value, std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mu_);
  const bool reached =
      lock.WaitUntil(raised_, deadline, [&]() UOPD_REQUIRES(mu_) { return value_ >= value; });
  if (reached) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("The semaphore is at ", value_, " and does not reach ", value, " in time."));
}

bool Semaphore::ReachedOr(uint64_t value, std::function<void(bool)> fn) {
  MutexLock lock(mu_);
  if (value_ >= value) return true;
  waiters_.push_back({value, std::move(fn)});
  return false;
}

}  // namespace uopd::devices
