// SPDX-License-Identifier: MIT
// The order of a stream that executes on the host: work runs inline until an unmet wait is ahead of
// it.
//
//              Push, nothing ahead                PushWait, not reached
//     idle ───────────────────────► running ─────────────────────────────► blocked
//      ▲  ◄─────── queue empty ───────┘ ▲ └── more queued: next ──┘            │
//      │                                └──── signalled (on that thread) ◄─────┘
//
// Owned by shared_ptr: by its stream and by the semaphore that it waits for, so that queued work
// survives the stream and is dropped with the semaphore. One thread pushes at a time; signals come
// from any thread.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/api/semaphore.h"

namespace uopd::devices {

class CommandQueue : public std::enable_shared_from_this<CommandQueue> {
 public:
  // `deferred`: nothing runs before Synchronize, PushRecord or RunQueued, as on the
  // slowest device that the contract allows.
  explicit CommandQueue(bool deferred = false) : deferred_(deferred) {}

  // True: nothing is ahead and nothing has failed, so the pushing thread may run its work itself,
  // without Push.
  bool idle() const UOPD_EXCLUDES(mu_);
  // `work` runs after all that was pushed before; skipped after an error.
  void Push(std::function<absl::Status()> work) UOPD_EXCLUDES(mu_);
  // A failure of the semaphore is then the queue's.
  void PushWait(TimePoint until) UOPD_EXCLUDES(mu_);
  // Signals `point`, or fails its semaphore if the queue has failed.
  void PushRecord(TimePoint point) UOPD_EXCLUDES(mu_);
  // Runs what is deferred.
  void RunQueued() UOPD_EXCLUDES(mu_) { Drain(); }
  // Waits until the queue is empty; returns the first error since the last call and forgets it.
  absl::Status Synchronize() UOPD_EXCLUDES(mu_);

 private:
  struct Item {
    enum Kind { kWork, kWait, kRecord } kind = kWork;
    std::function<absl::Status()> work;
    TimePoint point;  // of a wait or a record
  };

  void Append(Item item) UOPD_EXCLUDES(mu_);
  void Drain() UOPD_EXCLUDES(mu_);
  // False when the queue is now blocked.
  bool PassWait(Item item) UOPD_EXCLUDES(mu_);
  void Unblock(const absl::Status& reached) UOPD_EXCLUDES(mu_);

  const bool deferred_;
  mutable Mutex mu_;
  std::condition_variable changed_;
  std::deque<Item> items_ UOPD_GUARDED_BY(mu_);
  bool running_ UOPD_GUARDED_BY(mu_) = false;
  bool blocked_ UOPD_GUARDED_BY(mu_) = false;
  absl::Status status_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices
