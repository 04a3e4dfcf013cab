// SPDX-License-Identifier: MIT
#include "server/net/unfinished_messages.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace uopd::net {

UnfinishedMessages::Share::Share(std::shared_ptr<UnfinishedMessages> all, std::string peer,
                                 std::function<void()> end)
    : all_(std::move(all)), peer_(std::move(peer)), end_(std::move(end)) {
  MutexLock lock(all_->mu_);
  all_->shares_.insert(this);
}

UnfinishedMessages::Share::~Share() {
  MutexLock lock(all_->mu_);
  all_->shares_.erase(this);
  all_->bytes_.fetch_sub(bytes_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void UnfinishedMessages::Share::Hold(uint64_t bytes) {
  const uint64_t before = bytes_.exchange(bytes, std::memory_order_relaxed);
  if (bytes == before) return;
  // Unsigned numbers wrap around, so that this also subtracts.
  const uint64_t all = all_->bytes_.fetch_add(bytes - before, std::memory_order_relaxed);
  if (bytes > before && all + (bytes - before) > all_->most_bytes_) all_->EndLargest();
}

uint64_t UnfinishedMessages::Alive() const {
  uint64_t out = 0;
  for (const Share* share : shares_) {
    if (!share->ended_) out += share->bytes_.load(std::memory_order_relaxed);
  }
  return out;
}

void UnfinishedMessages::EndLargest() {
  MutexLock lock(mu_);
  while (Alive() > most_bytes_) {
    absl::flat_hash_map<std::string, uint64_t> peers;
    const auto bytes_of = [](const Share* share) {
      return share->bytes_.load(std::memory_order_relaxed);
    };
    for (const Share* share : shares_) {
      if (!share->ended_) peers[share->peer_] += bytes_of(share);
    }
    const auto largest = [&](const Share* a, const Share* b) {
      return std::pair(peers[a->peer_], bytes_of(a)) < std::pair(peers[b->peer_], bytes_of(b));
    };
    Share* chosen = nullptr;
    for (Share* share : shares_) {
      if (!share->ended_ && (chosen == nullptr || largest(chosen, share))) chosen = share;
    }
    if (chosen == nullptr) return;
    chosen->ended_ = true;
    chosen->end_();
  }
}

}  // namespace uopd::net
