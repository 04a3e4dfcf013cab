// SPDX-License-Identifier: MIT
// Arrivals: tells parts of this process about values that other daemons computed, when such a value
// has been put into this daemon's own tiers.
//
// Thread-safe.
#pragma once
#include <cstdint>
#include <functional>
#include <map>

#include "cache/base/row/row.h"
#include "core/base/mutex.h"

namespace uopd::cache {

class Arrivals {
 public:
  using Heard = std::function<void(const Row&)>;

  // Calls `heard` for each arrival as long as the returned object lives. `heard` runs on a thread
  // of the cache, one call at a time, and must be short. It calls nothing of the cache.
  class Subscription {
   public:
    Subscription(Arrivals& arrivals, Heard heard);
    ~Subscription();  // waits for a call that runs
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    Arrivals& arrivals_;
    int64_t id_ = 0;
  };

  void Announce(const Row& row) UOPD_EXCLUDES(mu_);

 private:
  Mutex mu_;
  int64_t next_ UOPD_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Heard> subscribed_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::cache
