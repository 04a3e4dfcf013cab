// SPDX-License-Identifier: MIT
#include "cache/base/row/use_counts.h"

#include <algorithm>

namespace uopd::cache {

void UseCounts::Add(const Digest& address, int64_t cost_us) {
  MutexLock lock(mu_);
  // Many entries may have large counts, so this may take several rounds.
  while (counts_.size() >= max_entries_ && !counts_.contains(address)) {
    for (auto& [other, uses] : counts_) uses = {uses.hits / 2, uses.saved_us / 2};
    absl::erase_if(counts_, [](const auto& entry) { return entry.second.hits == 0; });
  }
  Uses& uses = counts_[address];
  ++uses.hits;
  uses.saved_us += std::max<int64_t>(cost_us, 0);
}

UseCounts::Uses UseCounts::Of(const Digest& address) const {
  MutexLock lock(mu_);
  const auto it = counts_.find(address);
  return it == counts_.end() ? Uses{} : it->second;
}

std::vector<std::pair<Digest, UseCounts::Uses>> UseCounts::All() const {
  MutexLock lock(mu_);
  return {counts_.begin(), counts_.end()};
}

}  // namespace uopd::cache
