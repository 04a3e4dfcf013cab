// SPDX-License-Identifier: MIT
// Limits how many calls each peer may begin per second. Each peer has a bucket of tokens whose
// capacity is the tokens of one second.
//
// Thread-safe. A bucket that is full again is removed, so that peers which come and go cost
// nothing.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace uopd::engine {

class PeerRates {
 public:
  explicit PeerRates(int64_t per_second) : per_second_(per_second) {}

  // 0: no limit.
  void set_per_second(int64_t per_second) {
    per_second_.store(per_second, std::memory_order_relaxed);
  }
  bool limited() const { return per_second_.load(std::memory_order_relaxed) > 0; }

  // RESOURCE_EXHAUSTED: the peer has used up its calls of this second.
  absl::Status Take(const std::string& peer, int64_t now_ns) UOPD_EXCLUDES(mu_);
  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  struct Bucket {
    double tokens = 0;
    int64_t at_ns = 0;  // the time at which the bucket had `tokens`
  };
  std::atomic<int64_t> per_second_;
  mutable Mutex mu_;
  int64_t swept_ns_ UOPD_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<std::string, Bucket> buckets_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
