// SPDX-License-Identifier: MIT
#include "devices/api/host/command_queue.h"

#include <utility>

namespace uopd::devices {

bool CommandQueue::idle() const {
  MutexLock lock(mu_);
  return !deferred_ && items_.empty() && !running_ && !blocked_ && status_.ok();
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

void CommandQueue::Append(Item item) {
  const bool waits = deferred_ && item.kind != Item::kRecord;
  {
    MutexLock lock(mu_);
    items_.push_back(std::move(item));
  }
  if (!waits) Drain();
}

void CommandQueue::Drain() {
  for (;;) {
    Item item;
    absl::Status before;
    {
      MutexLock lock(mu_);
      if (running_ || blocked_ || items_.empty())
        return;  // whoever runs or unblocks goes on with the queue
      item = std::move(items_.front());
      items_.pop_front();
      running_ = true;
      before = status_;
    }
    if (item.kind == Item::kWait && before.ok()) {
      if (!PassWait(std::move(item))) return;
      continue;
    }
    absl::Status status;
    if (item.kind == Item::kRecord) {
      if (before.ok()) {
        item.point.semaphore->Signal(item.point.value);
      } else {
        item.point.semaphore->Fail(before);
      }
    } else if (before.ok()) {
      status = item.work();
    }
    item = {};  // drops buffers before anyone can see the queue empty
    MutexLock lock(mu_);
    running_ = false;
    if (status_.ok()) status_ = std::move(status);
    changed_.notify_all();
  }
}

bool CommandQueue::PassWait(Item item) {
  {
    // Before asking: the signal may come on another thread while ReachedOr returns.
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
  Drain();
}

absl::Status CommandQueue::Synchronize() {
  Drain();
  MutexLock lock(mu_);
  lock.Wait(changed_,
            [&]() UOPD_REQUIRES(mu_) { return items_.empty() && !running_ && !blocked_; });
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace uopd::devices
