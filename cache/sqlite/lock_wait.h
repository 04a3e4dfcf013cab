// SPDX-License-Identifier: MIT
// LockWait: how a connection waits while another one has the lock of the file.
//
// It looks again and again, because nothing wakes it: the other connection may be another
// process's. Each pause is a quarter of the time that was waited, between kLeast and kMost. So it
// waits about a quarter longer than the lock is held. The own pauses of SQLite are 1, 2, 5, 10 ...
// ms: a read that met a commit of 0.2 ms took 1 ms, and one that met 4 ms took 8.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace uopd::cache::sqlite {

class LockWait {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kLeast{50}, kMost{10'000};

  explicit LockWait(std::chrono::microseconds limit) : limit_(limit) {}

  // The next pause after so much waiting; nullopt: the limit is reached.
  static std::optional<std::chrono::microseconds> PauseAfter(std::chrono::microseconds waited,
                                                             std::chrono::microseconds limit) {
    if (waited >= limit) return std::nullopt;
    return std::min(std::clamp(waited / 4, kLeast, kMost), limit - waited);
  }

  // Pauses. False: it has waited for the limit. `tries`: how often this was called for the present
  // lock.
  bool Pause(int tries) {
    const Clock::time_point now = Clock::now();
    if (tries == 0) begin_ = now;
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(now - begin_);
    const auto pause = PauseAfter(waited, limit_);
    if (pause) std::this_thread::sleep_for(*pause);
    return pause.has_value();
  }

 private:
  const std::chrono::microseconds limit_;
  Clock::time_point begin_;
};

}  // namespace uopd::cache::sqlite
