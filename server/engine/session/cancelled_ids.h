// SPDX-License-Identifier: MIT
// Request ids that their client has cancelled. The request may run, wait, or not have arrived yet.
//
// Bounded: only the latest kMaxIds ids are kept. Thread-safe.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>

#include "core/base/mutex.h"

namespace uopd::engine {

class CancelledIds {
 public:
  static constexpr size_t kMaxIds = 256;

  void Add(uint64_t request_id) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (std::find(ids_.begin(), ids_.end(), request_id) != ids_.end()) return;
    if (ids_.size() == kMaxIds) ids_.pop_front();
    ids_.push_back(request_id);
  }
  bool Has(uint64_t request_id) const UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return std::find(ids_.begin(), ids_.end(), request_id) != ids_.end();
  }

 private:
  mutable Mutex mu_;
  std::deque<uint64_t> ids_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
