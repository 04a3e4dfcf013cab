// SPDX-License-Identifier: MIT
#include "cache/base/wait/arrivals.h"

#include <utility>

namespace uopd::cache {

Arrivals::Subscription::Subscription(Arrivals& arrivals, Heard heard) : arrivals_(arrivals) {
  const MutexLock lock(arrivals_.mu_);
  id_ = arrivals_.next_++;
  arrivals_.subscribed_.emplace(id_, std::move(heard));
}

Arrivals::Subscription::~Subscription() {
  const MutexLock lock(arrivals_.mu_);
  arrivals_.subscribed_.erase(id_);
}

void Arrivals::Announce(const Row& row) {
  const MutexLock lock(mu_);
  for (const auto& [id, heard] : subscribed_) heard(row);
}

}  // namespace uopd::cache
