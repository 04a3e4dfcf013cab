// SPDX-License-Identifier: MIT
// Wanted: what a daemon asked the shared tier for in vain, in the last ten to twenty minutes. Not thread-safe.
#pragma once

#include <chrono>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "cache/base/wait.h"
#include "core/base/digest.h"

namespace uopd::cache {

class Wanted {
 public:
  static constexpr std::chrono::minutes kFor{10};
  // Beyond so many in kFor all are forgotten: lookups find what is not announced to this daemon.
  static constexpr size_t kMost = 16'384;

  void Add(const Digest& address, Deadline now) {
    Turn(now);
    if (young_.size() >= kMost) young_.clear();
    young_.insert(address);
  }
  // It is here, or nobody needs it any more. Whether it was wanted.
  bool Remove(const Digest& address) {
    const bool young = young_.erase(address) > 0, old = old_.erase(address) > 0;
    return young || old;
  }
  bool IsEmpty(Deadline now) {
    Turn(now);
    return young_.empty() && old_.empty();
  }

 private:
  void Turn(Deadline now) {
    if (now - turned_at_ < kFor) return;
    old_ = std::exchange(young_, {});
    if (now - turned_at_ >= 2 * kFor) old_ = {};
    turned_at_ = now;
  }
  // Since turned_at_, and in kFor before.
  absl::flat_hash_set<Digest> young_, old_;
  Deadline turned_at_;
};

}  // namespace uopd::cache
