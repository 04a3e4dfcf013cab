// SPDX-License-Identifier: MIT
#include "server/engine/quota.h"

#include "core/base/text.h"

namespace uopd::engine {

absl::Status Quota::Take(int64_t bytes) {
  UOPD_CHECK(bytes >= 0);
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (used > limit || bytes > limit - used) {
      return absl::ResourceExhaustedError(
          Cat(bytes, " more bytes exceed ", name_, " (", limit, "), of which ", used, " are in use"));
    }
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  if (parent_ == nullptr) return absl::OkStatus();
  absl::Status status = parent_->Take(bytes);
  if (!status.ok()) used_.fetch_sub(bytes, std::memory_order_relaxed);
  return status;
}

void Quota::Give(int64_t bytes) {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
  if (parent_ != nullptr) parent_->Give(bytes);
}

}  // namespace uopd::engine
