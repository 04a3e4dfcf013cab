// SPDX-License-Identifier: MIT
// Wanted: what a daemon asked the shared tier for in vain, and when it asks again. Not thread-safe.
//
// The pauses grow with the time that it waits: after one second, two, four ... So waiting costs few questions, and takes at
// most twice as long as it must.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cache/base/wait/wait.h"
#include "core/base/digest.h"

namespace uopd::cache {

class Wanted {
 public:
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::minutes kFor{10};  // then it is forgotten
  // Beyond so many all are forgotten: the next lookups ask for themselves.
  static constexpr size_t kMost = 16'384;

  void Add(const Digest& address, Deadline now) {
    if (waiting_.size() >= kMost) waiting_.clear();
    waiting_[address] = {.since = now, .next = now + kFirstPause};
  }
  // It is here, or nobody needs it any more. Whether it was wanted.
  bool Remove(const Digest& address) { return waiting_.erase(address) > 0; }
  // When the first of them is due; `otherwise` if none is before.
  Deadline NextOr(Deadline otherwise) const {
    for (const auto& [address, one] : waiting_) otherwise = std::min(otherwise, one.next);
    return otherwise;
  }
  // Those that are due. They stay, and are due again later.
  std::vector<Digest> TakeDue(Deadline now) {
    absl::erase_if(waiting_, [&](const auto& one) { return now - one.second.since > kFor; });
    std::vector<Digest> due;
    for (auto& [address, one] : waiting_) {
      if (one.next > now) continue;
      due.push_back(address);
      one.next = now + std::max<Deadline::duration>(kFirstPause, now - one.since);
    }
    return due;
  }

 private:
  struct One {
    Deadline since, next;
  };
  absl::flat_hash_map<Digest, One> waiting_;
};

}  // namespace uopd::cache
