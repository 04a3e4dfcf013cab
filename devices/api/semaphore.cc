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
  const absl::Status why = absl::AbortedError(
      "A semaphore that the stream waits for is destroyed before it is signalled");
  for (Waiter& waiter : left) waiter.fn(why);
}

uint64_t Semaphore::value() const {
  MutexLock lock(mu_);
  return value_;
}

absl::Status Semaphore::failure() const {
  MutexLock lock(mu_);
  return failure_;
}

void Semaphore::Signal(uint64_t value) {
  std::vector<Waiter> ready;
  {
    MutexLock lock(mu_);
    if (value <= value_ || !failure_.ok()) return;
    value_ = value;
    for (Waiter& waiter : waiters_) {
      if (waiter.value <= value) ready.push_back(std::move(waiter));
    }
    std::erase_if(waiters_, [&](const Waiter& waiter) { return waiter.value <= value; });
    raised_.notify_all();
  }
  for (Waiter& waiter : ready) waiter.fn(absl::OkStatus());
}

void Semaphore::Fail(absl::Status why) {
  std::vector<Waiter> left;
  {
    MutexLock lock(mu_);
    if (!failure_.ok()) return;
    failure_ = why;
    left.swap(waiters_);
    raised_.notify_all();
  }
  for (Waiter& waiter : left) waiter.fn(why);
}

absl::Status Semaphore::Wait(uint64_t value, std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(mu_);
  lock.WaitUntil(raised_, deadline,
                 [&]() UOPD_REQUIRES(mu_) { return value_ >= value || !failure_.ok(); });
  if (value_ >= value) return absl::OkStatus();
  if (!failure_.ok()) return failure_;
  return absl::DeadlineExceededError(
      absl::StrCat("The semaphore is at ", value_, " and does not reach ", value, " in time"));
}

bool Semaphore::ReachedOr(uint64_t value, Reached fn) {
  absl::Status failed;
  {
    MutexLock lock(mu_);
    if (value_ >= value) return true;
    failed = failure_;
    if (failed.ok()) {
      waiters_.push_back({value, std::move(fn)});
      return false;
    }
  }
  fn(failed);
  return false;
}

}  // namespace uopd::devices
