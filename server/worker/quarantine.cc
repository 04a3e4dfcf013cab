// SPDX-License-Identifier: MIT
#include "server/worker/quarantine.h"

namespace uopd::worker {

void Quarantine::Add(const QuarantineEntry& entry, Clock::time_point now) {
  MutexLock lock(mu_);
  if (max_entries_ == 0) return;
  const Clock::time_point until = entry.passing() ? now + entry.life : Clock::time_point::max();
  const auto [it, added] = held_.try_emplace(entry.job, Held{entry, until});
  if (!added) {
    if (it->second.until < until) it->second = {entry, until};
    return;
  }
  order_.push_back(entry.job);
  if (order_.size() > max_entries_) {
    held_.erase(order_.front());
    order_.pop_front();
  }
}

std::optional<QuarantineEntry> Quarantine::Find(const Digest& job, Clock::time_point now) const {
  MutexLock lock(mu_);
  const auto it = held_.find(job);
  if (it == held_.end() || it->second.until <= now) return std::nullopt;
  return it->second.entry;
}

std::vector<QuarantineEntry> Quarantine::entries(Clock::time_point now) const {
  MutexLock lock(mu_);
  std::vector<QuarantineEntry> out;
  for (const Digest& job : order_) {
    const Held& held = held_.at(job);
    if (held.until > now) out.push_back(held.entry);
  }
  return out;
}

bool Quarantine::Remove(const Digest& job) {
  MutexLock lock(mu_);
  if (held_.erase(job) == 0) return false;
  std::erase(order_, job);
  return true;
}

}  // namespace uopd::worker
