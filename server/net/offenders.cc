// SPDX-License-Identifier: MIT
#include "server/net/offenders.h"

#include <algorithm>

namespace uopd::net {

void Offenders::Add(const std::string& peer, Clock::time_point now) {
  MutexLock lock(mu_);
  if (now - swept_ > std::chrono::seconds(1)) {
    absl::erase_if(all_, [now](const auto& one) { return now - one.second.last > kTime; });
    swept_ = now;
  }
  // Whoever has many addresses fills neither the memory nor the time.
  if (all_.size() >= kMost && !all_.contains(peer)) all_.erase(all_.begin());
  const auto [it, is_new] = all_.try_emplace(peer);
  if (is_new) it->second.filled = now;
  it->second.last = now;
}

bool Offenders::Admits(const std::string& peer, Clock::time_point now) {
  MutexLock lock(mu_);
  const auto it = all_.find(peer);
  if (it == all_.end()) return true;
  Offender& one = it->second;
  if (now - one.last > kTime) {
    all_.erase(it);
    return true;
  }
  const std::chrono::duration<double> since = now - one.filled;
  one.tokens = std::min(kPerSecond, one.tokens + kPerSecond * std::max(0.0, since.count()));
  one.filled = now;
  if (one.tokens < 1) return false;
  one.tokens -= 1;
  return true;
}

size_t Offenders::size() const {
  MutexLock lock(mu_);
  return all_.size();
}

}  // namespace uopd::net
