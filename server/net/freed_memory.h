// SPDX-License-Identifier: MIT
// Gives memory that connections have left to the system.
//
// malloc keeps what was freed, and gives back only the end of each of its arenas. A connection
// frees all that it had when it is closed, but in pieces between those of others. So some time
// after a connection was closed, the pages of all free pieces are given back, if they are many.
// Those who work meanwhile wait for an arena for some milliseconds, so this happens rarely.
//
// Not thread-safe.
#pragma once
#include <chrono>
#include <cstddef>

namespace uopd::net {

class FreedMemory {
 public:
  using Clock = std::chrono::steady_clock;
  // Less stays with malloc.
  static constexpr size_t kWorth = 64 << 20;
  // Once a connection is closed, the rest of what it had is freed within this time.
  static constexpr std::chrono::seconds kSettled{2};
  // At least this long between two times, and this many times as long as it took.
  static constexpr std::chrono::seconds kPause{10};
  static constexpr int kShare = 100;

  // A connection was closed.
  void OnClosed(Clock::time_point now);
  // Called from time to time. True: memory was given back.
  bool Tick(Clock::time_point now);
  // There may be something to give back.
  bool waits() const { return closed_; }

 private:
  bool closed_ = false;
  Clock::time_point closed_at_, next_;
};

}  // namespace uopd::net
