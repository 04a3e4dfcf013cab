// SPDX-License-Identifier: MIT
// Bounds how many lines per second one kind of event may write, so that a client that causes many
// such events can neither fill the disk nor hide other lines.
//
//   static LogLimiter limiter(10);
//   uint64_t dropped;
//   if (limiter.Take(&dropped)) UOPD_LOG(kInfo, "refused", {"dropped", dropped});
//
// Thread-safe.
#pragma once
#include <chrono>
#include <cstdint>

#include "core/base/mutex.h"

namespace uopd {

class LogLimiter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LogLimiter(int lines_a_second) : most_(lines_a_second) {}

  // True if a line may be written now. Then `*dropped` is the number of lines that were refused
  // since the last one that was allowed; otherwise it is unchanged.
  bool Take(uint64_t* dropped, Clock::time_point now = Clock::now()) UOPD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (!begun_ || now - begin_ >= std::chrono::seconds(1)) {
      begun_ = true;
      begin_ = now;
      written_ = 0;
    }
    if (written_ >= most_) {
      ++dropped_;
      return false;
    }
    ++written_;
    *dropped = dropped_;
    dropped_ = 0;
    return true;
  }

 private:
  const int most_;
  Mutex mu_;
  bool begun_ UOPD_GUARDED_BY(mu_) = false;
  Clock::time_point begin_ UOPD_GUARDED_BY(mu_);  // start of the current second
  int written_ UOPD_GUARDED_BY(mu_) = 0;          // lines in the current second
  uint64_t dropped_ UOPD_GUARDED_BY(mu_) = 0;
};

}  // namespace uopd
