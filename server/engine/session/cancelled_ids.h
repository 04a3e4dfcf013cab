// SPDX-License-Identifier: MIT
// Request ids that their client has cancelled. The request may run, wait, or not have arrived yet.
//
// Bounded: only the latest kMaxIds ids are kept. Thread-safe.
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

  void Add(uint64_t request_id) UOPD_EXCLUDES(mu_) {
    std::shared_ptr<Cancellation> watcher;
    {
      MutexLock lock(mu_);
      if (!ids_.insert(request_id).second) return;
      order_.push_back(request_id);
      if (order_.size() > kMaxIds) {
        ids_.erase(order_.front());
        order_.pop_front();
      }
      if (const auto found = watchers_.find(request_id); found != watchers_.end())
        watcher = found->second;
    }
    if (watcher != nullptr) watcher->Cancel();
  }
  bool Has(uint64_t request_id) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return ids_.contains(request_id);
  }
  // From now until Unwatch, `watcher` is cancelled with the id; at once if that happened before.
  void Watch(uint64_t request_id, std::shared_ptr<Cancellation> watcher) UOPD_EXCLUDES(mu_) {
    bool before = false;
    {
      MutexLock lock(mu_);
      before = ids_.contains(request_id);
      watchers_.insert_or_assign(request_id, watcher);
    }
    if (before) watcher->Cancel();
  }
  void Unwatch(uint64_t request_id) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    watchers_.erase(request_id);
  }

 private:
  mutable Mutex mu_;
  absl::flat_hash_set<uint64_t> ids_ UOPD_GUARDED_BY(mu_);
  std::deque<uint64_t> order_ UOPD_GUARDED_BY(mu_);  // of ids_: the oldest first
  absl::flat_hash_map<uint64_t, std::shared_ptr<Cancellation>> watchers_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
