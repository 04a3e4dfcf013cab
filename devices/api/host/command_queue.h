// SPDX-License-Identifier: MIT
// The order of a stream that executes on the host.
//
// Inline: work runs on the pushing thread, until a wait that is not met is ahead in the queue. Work
// behind such a wait runs on the thread that meets the wait. In the background: all work runs on
// threads of its own (queue_threads.h), and every item runs some time after it was pushed, as on a
// slow device.
//
//              Push, nothing ahead                PushWait, not reached
//     idle ───────────────────────► running ─────────────────────────────► blocked
//      ▲  ◄─────── queue empty ───────┘ ▲ └── more queued: next ──┘            │
//      │                                └──────────── signalled ◄──────────────┘
//
// Owned by shared_ptr. The owners are the queue's stream, the semaphore that the queue waits for,
// and the thread that works for the queue. So queued work survives the stream. Work that waits is
// dropped together with the semaphore. Only one thread pushes at a time; signals may come from any
// thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/api/semaphore.h"

namespace uopd::devices {

class CommandQueue : public std::enable_shared_from_this<CommandQueue> {
 public:
  // nullopt: inline. Otherwise the queue works in the background, and this is the pause before each
  // item: after the end of the item before it, or after the push if it is the first item.
  using Delay = std::optional<std::chrono::microseconds>;

  explicit CommandQueue(Delay background = std::nullopt) : background_(background) {}

  // True: the queue is empty and has not failed, so the pushing thread may run its work itself,
  // without Push. Never true in the background.
  bool idle() const UOPD_EXCLUDES(mu_);
  // Queues `work` behind everything that was pushed before. After an error, `work` is skipped.
  void Push(std::function<absl::Status()> work) UOPD_EXCLUDES(mu_);
  // Queues a wait. If the semaphore fails, the queue fails with the same error.
  void PushWait(TimePoint until) UOPD_EXCLUDES(mu_);
  // Queues a signal of `point`. If the queue has failed, the semaphore fails instead.
  void PushRecord(TimePoint point) UOPD_EXCLUDES(mu_);
  // Drops the reference to `object` when its turn comes, also after an error.
  void PushDrop(std::shared_ptr<const void> object) UOPD_EXCLUDES(mu_);
  // Waits until the queue is empty. Returns the first error since the last call, and forgets it.
  absl::Status Synchronize() UOPD_EXCLUDES(mu_);

 private:
  struct Item {
    enum Kind { kWork, kWait, kRecord, kDrop } kind = kWork;
    std::function<absl::Status()> work;
    TimePoint point;                     // for a wait or a record
    std::shared_ptr<const void> object;  // for a drop
  };

  void Append(Item item) UOPD_EXCLUDES(mu_);
  // Runs the items that can run: here, or in the background.
  void GoOn() UOPD_EXCLUDES(mu_);
  void RunInBackground(std::chrono::microseconds delay) UOPD_EXCLUDES(mu_);
  // Runs the first item. False: the queue is empty or blocked, or another thread runs an item.
  bool RunOne() UOPD_EXCLUDES(mu_);
  // Returns false if the queue is now blocked.
  bool PassWait(Item item) UOPD_EXCLUDES(mu_);
  void Unblock(const absl::Status& reached) UOPD_EXCLUDES(mu_);

  const Delay background_;
  mutable Mutex mu_;
  std::condition_variable changed_;
  std::deque<Item> items_ UOPD_GUARDED_BY(mu_);
  bool running_ UOPD_GUARDED_BY(mu_) = false;
  bool blocked_ UOPD_GUARDED_BY(mu_) = false;
  // In the background: a thread works for this queue.
  bool has_thread_ UOPD_GUARDED_BY(mu_) = false;
  absl::Status status_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices
