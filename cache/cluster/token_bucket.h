// SPDX-License-Identifier: MIT
// TokenBucket: allows so many uses at once, and then one every so often. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>

#include "cache/base/wait/wait.h"

namespace uopd::cache {

class TokenBucket {
 public:
  // Full at first. REQUIRES: burst >= 1, refill > 0.
  TokenBucket(int burst, std::chrono::microseconds refill)
      : refill_(refill), reserve_(burst * refill) {}

  // Takes a token, or so many, if they are there. REQUIRES: tokens <= burst.
  bool Take(Deadline now, int tokens = 1) {
    const Deadline full = std::max(full_at_, now) + tokens * refill_;
    if (full - reserve_ > now) return false;
    full_at_ = full;
    return true;
  }
  // Takes the next token, or so many, and says when they are there: `now` or later.
  Deadline Reserve(Deadline now, int tokens = 1) {
    full_at_ = std::max(full_at_, now) + tokens * refill_;
    return std::max(now, full_at_ - reserve_);
  }
  // Takes up to so many tokens away.
  void Drain(int tokens, Deadline now) {
    full_at_ = std::min(std::max(full_at_, now) + tokens * refill_, now + reserve_);
  }
  // When so many tokens are there, if nobody takes any. REQUIRES: tokens <= burst.
  Deadline ReadyAt(int tokens) const { return full_at_ - reserve_ + tokens * refill_; }

 private:
  const std::chrono::microseconds refill_, reserve_;  // of one token; of the whole bucket
  Deadline full_at_;  // when the bucket is full if nobody takes a token
};

}  // namespace uopd::cache
