// SPDX-License-Identifier: MIT
// Backoff: how long a client waits before it tries again. The wait doubles with each try, and half
// of it is random, so that the clients of a restarted daemon do not all come at the same time.
#pragma once
#include <algorithm>
#include <chrono>
#include <random>

namespace uopd::client {

// Tries of a call while the daemon says that it is shutting down: about five seconds, in which another one may take its place.
inline constexpr int kTriesOfRestart = 9;

class Backoff {
 public:
  static constexpr std::chrono::milliseconds kFirst{50}, kLongest{2000};

  explicit Backoff(uint64_t seed) : random_(seed) {}

  // The time to wait before the next try.
  std::chrono::milliseconds Next() {
    const auto most = next_.count();
    next_ = std::min(next_ * 2, kLongest);
    std::uniform_int_distribution<int64_t> between(most / 2, most);
    return std::chrono::milliseconds(between(random_));
  }

 private:
  std::mt19937_64 random_;
  std::chrono::milliseconds next_ = kFirst;
};

}  // namespace uopd::client
