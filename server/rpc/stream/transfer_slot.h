// SPDX-License-Identifier: MIT
// The right of a call to hold a bundle of the cache in memory. Few calls have it at a time, in one
// process.
//
// Taken only by a call that was admitted: otherwise callers without the permission would keep the
// operators out. Thread-safe.
#pragma once
#include <atomic>
#include <utility>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::rpc {

class TransferSlot {
 public:
  static constexpr int kMax = 2;

  // RESOURCE_EXHAUSTED: all slots are taken. That takes none.
  static absl::StatusOr<TransferSlot> Take() {
    for (int running = running_.load(); running < kMax;) {
      if (running_.compare_exchange_weak(running, running + 1)) return TransferSlot(true);
    }
    return absl::ResourceExhaustedError(
        Cat(kMax, " exports or imports of the cache are running: try again later"));
  }
  ~TransferSlot() {
    if (held_) running_.fetch_sub(1);
  }
  TransferSlot(TransferSlot&& other) noexcept : held_(std::exchange(other.held_, false)) {}
  TransferSlot& operator=(TransferSlot&& other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }

 private:
  explicit TransferSlot(bool held) : held_(held) {}
  static inline std::atomic<int> running_{0};
  bool held_;
};

}  // namespace uopd::rpc
