// SPDX-License-Identifier: MIT
#include "server/engine/session/peer_rates.h"

#include <algorithm>

#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

}  // namespace

absl::Status PeerRates::Take(const std::string& peer, int64_t now_ns) {
  const int64_t rate = per_second_.load(std::memory_order_relaxed);
  if (rate <= 0) return absl::OkStatus();
  const auto full = static_cast<double>(rate);
  MutexLock lock(mu_);
  if (now_ns - swept_ns_ > kSecondNs) {  // after a second, an unused bucket is full again
    absl::erase_if(buckets_,
                   [&](const auto& entry) { return now_ns - entry.second.at_ns > kSecondNs; });
    swept_ns_ = now_ns;
  }
  auto [it, added] = buckets_.try_emplace(peer, Bucket{full, now_ns});
  Bucket& bucket = it->second;
  const auto passed = static_cast<double>(std::max<int64_t>(now_ns - bucket.at_ns, 0));
  bucket.tokens = std::min(full, bucket.tokens + full * passed / static_cast<double>(kSecondNs));
  bucket.at_ns = now_ns;
  if (bucket.tokens < 1) {
    return absl::ResourceExhaustedError(
        Cat("peer (", peer, ") begins more than limits.peer_requests_per_s (", rate, ") calls"));
  }
  bucket.tokens -= 1;
  return absl::OkStatus();
}

size_t PeerRates::size() const {
  MutexLock lock(mu_);
  return buckets_.size();
}

}  // namespace uopd::engine
