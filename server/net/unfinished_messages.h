// SPDX-License-Identifier: MIT
// Bounds the bytes of messages that have begun and are not complete, of all connections together.
//
// gRPC keeps such a message for as long as its client likes, and does so before any token was seen.
// An honest client may need many bytes on one connection, so a single connection has no limit.
// Nobody is stopped until all connections together hold more than the limit. Then the peer that
// holds the most loses the connection that holds the most. A peer cannot hide behind many
// connections with a few bytes each.
//
// Thread-safe.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "core/base/mutex.h"

namespace uopd::net {

class UnfinishedMessages {
 public:
  // What one connection holds. `end` is called at most once, by any thread that makes the bytes too
  // many, and never after the destructor. It must not use this object or destroy it.
  class Share {
   public:
    Share(std::shared_ptr<UnfinishedMessages> all, std::string peer, std::function<void()> end);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    // The connection holds this many bytes now. Called by one thread at a time.
    void Hold(uint64_t bytes);

   private:
    friend class UnfinishedMessages;
    const std::shared_ptr<UnfinishedMessages> all_;
    const std::string peer_;
    const std::function<void()> end_;
    std::atomic<uint64_t> bytes_ = 0;
    bool ended_ = false;  // guarded by all_->mu_
  };

  explicit UnfinishedMessages(uint64_t most_bytes) : most_bytes_(most_bytes) {}
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  void EndLargest() UOPD_EXCLUDES(mu_);
  // What all hold, without the connections that were ended: they are on their way to be closed.
  uint64_t Alive() const UOPD_REQUIRES(mu_);

  const uint64_t most_bytes_;
  std::atomic<uint64_t> bytes_ = 0;  // of all shares
  Mutex mu_;
  absl::flat_hash_set<Share*> shares_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::net
