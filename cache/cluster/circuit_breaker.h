// SPDX-License-Identifier: MIT
// CircuitBreaker: stops asking a server that does not answer, and finds out when it does again.
//
// Closed: calls go through. After `failures` failures in a row it is open, and no call goes through
// for a pause that doubles with each failed try, up to `max_pause_us`. Then one call goes through;
// its success closes the breaker. So a dead server costs its callers a few budgets a pause, not one
// for each request. Nygard, Release It! (2007).
//
// A server that has too much to do answers too late, and each try is more for it to do. For such
// failures the caller may name a longer pause. Of the pauses beyond `max_pause_us` up to a half is
// left out at random, so that callers which failed together do not try together. And after such
// failures the pause goes on growing if the breaker opens again soon: one answer that comes in time
// does not say that the server has less to do, and many callers that begin with short pauses again
// would see to it that it has not. Thread-safe. Times are microseconds of a clock that the caller
// reads.
#pragma once

#include <cstdint>
#include <random>

#include "core/base/mutex.h"

namespace uopd::cache {

struct BreakerOptions {
  int failures = 3;
  int64_t pause_us = 250'000;
  int64_t max_pause_us = 8'000'000;
  uint64_t seed = 0;  // of the long pauses; 0: drawn at random
};

class CircuitBreaker {
 public:
  explicit CircuitBreaker(const BreakerOptions& options = {});

  // Whether a call may go through now. If so, Report must follow.
  bool Allow(int64_t now_us) UOPD_EXCLUDES(mu_);
  // How a call went that Allow let through. After a failure the pause grows up to `most_pause_us`,
  // if that is more than BreakerOptions::max_pause_us.
  void Report(bool success, int64_t now_us, int64_t most_pause_us = 0) UOPD_EXCLUDES(mu_);
  bool open() const UOPD_EXCLUDES(mu_);

 private:
  int64_t Shorten(int64_t pause_us) UOPD_REQUIRES(mu_);

  const BreakerOptions options_;
  mutable Mutex mu_;
  int failures_ UOPD_GUARDED_BY(mu_) = 0;  // in a row
  int64_t pause_us_ UOPD_GUARDED_BY(mu_) = 0;
  std::minstd_rand random_ UOPD_GUARDED_BY(mu_);
  bool may_be_long_ UOPD_GUARDED_BY(mu_) = false;  // the pause, after the last failure
  int64_t closed_us_ UOPD_GUARDED_BY(mu_) = 0;     // when it closed last
  int64_t retry_us_ UOPD_GUARDED_BY(mu_) = 0;      // while open: when one call may try
  bool trying_ UOPD_GUARDED_BY(mu_) = false;       // while open: a call tries
};

}  // namespace uopd::cache
