// SPDX-License-Identifier: MIT
// Request ids that their client has cancelled. The request may run, wait, or not have arrived yet.
// One that is done stays done: its id cannot be cancelled any more.
//
// Bounded: only the latest ids of both kinds are kept. Thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "server/engine/base/cancellation.h"

namespace uopd::engine {

// What such a request is answered with.
inline absl::Status CancelledById(uint64_t request_id) {
  return absl::CancelledError(Cat("request id (", request_id, ") was cancelled by its client"));
}

class CancelledIds {
 public:
  // A client has up to 1024 calls on the way, and may cancel all of them at once.
  static constexpr size_t kMaxIds = 4096;
  static constexpr size_t kMaxDone = 1024;  // as many as ResultMemory knows

  // No effect on a request that is done.
  void Add(uint64_t request_id) UOPD_EXCLUDES(mu_) {
    std::shared_ptr<Cancellation> watcher;
    {
      MutexLock lock(mu_);
      if (done_.Has(request_id) || !cancelled_.Add(request_id, kMaxIds)) return;
      if (const auto found = watchers_.find(request_id); found != watchers_.end())
        watcher = found->second;
    }
    if (watcher != nullptr) watcher->Cancel();
  }
  // The answer to the request is remembered. What was cancelled too late is forgotten.
  void Done(uint64_t request_id) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    cancelled_.Remove(request_id);
    done_.Add(request_id, kMaxDone);
  }
  bool Has(uint64_t request_id) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return cancelled_.Has(request_id);
  }
  // From now until Unwatch, `watcher` is cancelled with the id; at once if that happened before.
  void Watch(uint64_t request_id, std::shared_ptr<Cancellation> watcher) UOPD_EXCLUDES(mu_) {
    bool before = false;
    {
      MutexLock lock(mu_);
      before = cancelled_.Has(request_id);
      watchers_.insert_or_assign(request_id, watcher);
    }
    if (before) watcher->Cancel();
  }
  void Unwatch(uint64_t request_id) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    watchers_.erase(request_id);
  }

 private:
  class LatestIds {
   public:
    bool Has(uint64_t id) const { return ids_.contains(id); }
    // False: it is there. Above `most` the oldest one goes.
    bool Add(uint64_t id, size_t most) {
      if (!ids_.insert(id).second) return false;
      order_.push_back(id);
      if (order_.size() > most) {
        ids_.erase(order_.front());
        order_.pop_front();
      }
      return true;
    }
    void Remove(uint64_t id) {
      if (ids_.erase(id) > 0) std::erase(order_, id);
    }

   private:
    absl::flat_hash_set<uint64_t> ids_;
    std::deque<uint64_t> order_;  // of ids_: the oldest first
  };

  mutable Mutex mu_;
  LatestIds cancelled_ UOPD_GUARDED_BY(mu_), done_ UOPD_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, std::shared_ptr<Cancellation>> watchers_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
