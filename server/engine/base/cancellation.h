// SPDX-License-Identifier: MIT
// A request's end before its answer, told to who works or waits for it: a flag for those who poll,
// a call for the one who waits without a thread.
//
// Thread-safe. Held by shared_ptr by the RPC and by whoever works for it.
#pragma once
#include <atomic>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"

namespace uopd::engine {

class Cancellation {
 public:
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // For good. Calls the watcher, on this thread and without locks.
  void Cancel() UOPD_EXCLUDES(mu_) {
    absl::AnyInvocable<void()> watcher;
    {
      MutexLock lock(mu_);
      cancelled_.store(true, std::memory_order_release);
      watcher = std::move(watcher_);
      watcher_ = nullptr;
    }
    if (watcher) watcher();
  }

  // `watcher` is called once when the request is cancelled. There is one at a time. False: the
  // request was cancelled already, and the watcher stays with the caller.
  bool TryWatch(absl::AnyInvocable<void()>& watcher) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (cancelled()) return false;
    watcher_ = std::move(watcher);
    return true;
  }
  // The same, but calls it at once if the request was cancelled.
  void Watch(absl::AnyInvocable<void()> watcher) {
    if (!TryWatch(watcher)) watcher();
  }
  // The watcher is called no more, but may be running.
  void Unwatch() UOPD_EXCLUDES(mu_) {
    absl::AnyInvocable<void()> dropped;
    MutexLock lock(mu_);
    std::swap(dropped, watcher_);
  }

 private:
  std::atomic<bool> cancelled_{false};
  Mutex mu_;
  absl::AnyInvocable<void()> watcher_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
