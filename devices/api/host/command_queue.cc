// SPDX-License-Identifier: MIT
#include "devices/api/host/command_queue.h"

#include <thread>
#include <utility>

#include "devices/api/host/queue_threads.h"

namespace uopd::devices {

bool CommandQueue::idle() const {
  MutexLock lock(mu_);
  return !background_ && items_.empty() && !running_ && !blocked_ && status_.ok();
}

void CommandQueue::Push(std::function<absl::Status()> work) {
  Append({.kind = Item::kWork, .work = std::move(work)});
}

void CommandQueue::PushWait(TimePoint until) {
  Append({.kind = Item::kWait, .point = std::move(until)});
}

void CommandQueue::PushRecord(TimePoint point) {
  Append({.kind = Item::kRecord, .point = std::move(point)});
}

void CommandQueue::PushDrop(std::shared_ptr<const void> object) {
  Append({.kind = Item::kDrop, .object = std::move(object)});
}

void CommandQueue::Append(Item item) {
  {
    MutexLock lock(mu_);
    items_.push_back(std::move(item));
  }
  GoOn();
}

void CommandQueue::GoOn() {
  if (!background_) {
    while (RunOne()) {
    }
    return;
  }
  {
    MutexLock lock(mu_);
    if (has_thread_ || blocked_ || items_.empty()) return;
    has_thread_ = true;
  }
  RunOnQueueThread([self = shared_from_this()] { self->RunInBackground(*self->background_); });
}

void CommandQueue::RunInBackground(std::chrono::microseconds delay) {
  for (;;) {
    std::this_thread::sleep_for(delay);
    RunOne();
    MutexLock lock(mu_);
    if (blocked_ || items_.empty()) {
      has_thread_ = false;
      return;
    }
  }
}

bool CommandQueue::RunOne() {
  Item item;
  absl::Status before;
  {
    MutexLock lock(mu_);
    // The thread that runs an item, or that unblocks the queue, also continues with the queue.
    if (running_ || blocked_ || items_.empty()) return false;
    item = std::move(items_.front());
    items_.pop_front();
    running_ = true;
    before = status_;
  }
  if (item.kind == Item::kWait && before.ok()) return PassWait(std::move(item));
  absl::Status status;
  if (item.kind == Item::kRecord) {
    if (before.ok()) {
      item.point.semaphore->Signal(item.point.value);
    } else {
      item.point.semaphore->Fail(before);
    }
  } else if (item.kind == Item::kWork && before.ok()) {
    status = item.work();
  }
  item = {};  // drops references to buffers before another thread can see the queue empty
  MutexLock lock(mu_);
  running_ = false;
  if (status_.ok()) status_ = std::move(status);
  changed_.notify_all();
  return true;
}

bool CommandQueue::PassWait(Item item) {
  {
    // Set before ReachedOr is called: the signal may arrive on another thread before ReachedOr
    // returns.
    MutexLock lock(mu_);
    running_ = false;
    blocked_ = true;
  }
  auto self = shared_from_this();
  const TimePoint& point = item.point;
  if (!point.semaphore->ReachedOr(
          point.value, [self](const absl::Status& reached) { self->Unblock(reached); })) {
    return false;
  }
  MutexLock lock(mu_);
  blocked_ = false;
  changed_.notify_all();
  return true;
}

void CommandQueue::Unblock(const absl::Status& reached) {
  {
    MutexLock lock(mu_);
    blocked_ = false;
    if (status_.ok()) status_ = reached;
    changed_.notify_all();
  }
  GoOn();
}

absl::Status CommandQueue::Synchronize() {
  GoOn();
  MutexLock lock(mu_);
  lock.Wait(changed_,
            [&]() UOPD_REQUIRES(mu_) { return items_.empty() && !running_ && !blocked_; });
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace uopd::devices
