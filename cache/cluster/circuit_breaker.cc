// SPDX-License-Identifier: MIT
#include "cache/cluster/circuit_breaker.h"

#include <algorithm>

namespace uopd::cache {

CircuitBreaker::CircuitBreaker(const BreakerOptions& options)
    : options_(options),
      random_(static_cast<uint32_t>(options.seed != 0 ? options.seed : std::random_device()())) {}

int64_t CircuitBreaker::Shorten(int64_t pause_us) {
  if (pause_us <= options_.max_pause_us) return pause_us;
  const auto part = static_cast<int64_t>(random_() % 1024);
  return pause_us - pause_us * part / 2048;
}

bool CircuitBreaker::Allow(int64_t now_us) {
  const MutexLock lock(mu_);
  if (failures_ < options_.failures) return true;
  if (trying_ || now_us < retry_us_) return false;
  trying_ = true;
  return true;
}

void CircuitBreaker::Report(bool success, int64_t now_us, int64_t most_pause_us) {
  const MutexLock lock(mu_);
  trying_ = false;
  if (success) {
    if (failures_ == options_.failures) closed_us_ = now_us;
    failures_ = 0;
    if (!may_be_long_ || now_us - closed_us_ > pause_us_) pause_us_ = 0;
    return;
  }
  may_be_long_ = most_pause_us > options_.max_pause_us;
  failures_ = std::min(failures_ + 1, options_.failures);
  if (failures_ < options_.failures) return;
  // Calls that went through before the breaker opened may fail later: they do not make the pause
  // longer.
  if (pause_us_ != 0 && now_us < retry_us_) return;
  pause_us_ = pause_us_ == 0
                  ? options_.pause_us
                  : std::min(2 * pause_us_, std::max(most_pause_us, options_.max_pause_us));
  retry_us_ = now_us + Shorten(pause_us_);
}

bool CircuitBreaker::open() const {
  const MutexLock lock(mu_);
  return failures_ >= options_.failures;
}

}  // namespace uopd::cache
