// SPDX-License-Identifier: MIT
#include "devices/api/host/command_queue.h"

#include <utility>

namespace uopd::devices {

bool CommandQueue::idle() const {
  MutexLock lock(mu_);
  return !deferred_ && items_.empty() && !running_ && !blocked_ && status_.ok();
}

void CommandQueue::Push(std::function<absl::Status()> work, bool always) {
  Append({std::move(work), always, nullptr, 0});
}

void CommandQueue::PushWait(std::shared_ptr<Semaphore> semaphore, uint64_t value) {
  Append({nullptr, false, std::move(semaphore), value});
}

void CommandQueue::Append(Item item) {
  const bool waits = deferred_ && !item.always;
  {
    MutexLock lock(mu_);
    items_.push_back(std::move(item));
  }
  if (!waits) Drain();
}

void CommandQueue::Drain() {
  for (;;) {
    Item item;
    bool skip;
    {
      MutexLock lock(mu_);
      if (running_ || blocked_ || items_.empty())
        return;  // whoever runs or unblocks goes on with the queue
      item = std::move(items_.front());
      items_.pop_front();
      running_ = true;
      skip = !status_.ok() && !item.always;
    }
    if (item.semaphore != nullptr && !skip) {
      if (!PassWait(std::move(item))) return;
      continue;
    }
    absl::Status status = skip ? absl::OkStatus() : item.work();
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
  if (!item.semaphore->ReachedOr(item.value, [self](bool reached) { self->Unblock(reached); }))
    return false;
  MutexLock lock(mu_);
  blocked_ = false;
  changed_.notify_all();
  return true;
}

void CommandQueue::Unblock(bool reached) {
  {
    MutexLock lock(mu_);
    blocked_ = false;
    if (!reached && status_.ok()) {
      status_ = absl::AbortedError(
          "A semaphore that the stream waits for is destroyed before it is signalled.");
    }
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
