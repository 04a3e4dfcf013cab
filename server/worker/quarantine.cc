// SPDX-License-Identifier: MIT
#include "server/worker/quarantine.h"

namespace uopd::worker {

void Quarantine::Add(const QuarantineEntry& entry) {
  MutexLock lock(mu_);
  if (max_entries_ == 0 || !reasons_.try_emplace(entry.job, entry.reason).second) return;
  order_.push_back(entry.job);
  if (order_.size() > max_entries_) {
    reasons_.erase(order_.front());
    order_.pop_front();
  }
}

std::optional<std::string> Quarantine::ReasonOf(const Digest& job) const {
  MutexLock lock(mu_);
  const auto it = reasons_.find(job);
  if (it == reasons_.end()) return std::nullopt;
  return it->second;
}

std::vector<QuarantineEntry> Quarantine::entries() const {
  MutexLock lock(mu_);
  std::vector<QuarantineEntry> out;
  for (const Digest& job : order_) out.push_back({job, reasons_.at(job)});
  return out;
}

size_t Quarantine::size() const {
  MutexLock lock(mu_);
  return order_.size();
}

}  // namespace uopd::worker
