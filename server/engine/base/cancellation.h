// SPDX-License-Identifier: MIT
// Tells those who work for a request, or wait for it, that the request ended before its answer. It
// is a flag for those who poll, and a call for the one who waits without a thread.
//
// Thread-safe. Held by shared_ptr by the RPC and by everything that works for it.
#pragma once
#include <atomic>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "core/base/mutex.h"

namespace uopd::engine {

class Cancellation {
 public:
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  // Cancels for good. Calls the watcher on this thread, without holding a lock.
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

  // `watcher` is called once when the request is cancelled. Only one watcher is allowed at a time.
  // False: the request was cancelled before; `watcher` is not taken.
  bool TryWatch(absl::AnyInvocable<void()>& watcher) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (cancelled()) return false;
    watcher_ = std::move(watcher);
    return true;
  }
  // The same, but if the request was cancelled before, calls `watcher` at once.
  void Watch(absl::AnyInvocable<void()> watcher) {
    if (!TryWatch(watcher)) watcher();
  }
  // From now on the watcher is not called any more. It may still be running.
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
