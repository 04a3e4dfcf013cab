// SPDX-License-Identifier: MIT
#include "core/base/interrupt.h"

#include <algorithm>

namespace uopd {

bool Interrupt::Look() {
  using std::chrono::microseconds;
  if (raised()) {
    left_ = 1;  // every further poll comes here
    return true;
  }
  const Clock::time_point now = Clock::now();
  if (limits_.IsCancelled()) {
    status_ = CancelledByCaller();
  } else if (now >= limits_.deadline) {
    status_ = DeadlinePassed();
  }
  if (!fixed_) {
    const auto took = now - looked_;
    if (took > microseconds(200)) {
      const auto times = static_cast<int32_t>(std::min<int64_t>(took / microseconds(100), 1 << 20));
      interval_ = std::max(1, interval_ / times);
    } else if (took < microseconds(50)) {
      interval_ = std::min(kLongestInterval, 2 * interval_);
    }
  }
  looked_ = now;
  left_ = raised() ? 1 : interval_;
  return raised();
}

}  // namespace uopd
