// SPDX-License-Identifier: MIT
// Pace: how much a daemon may ask of the shared server beside what it needs now, in a cluster of so many daemons.
//
// The server is one thread that serves about 100,000 questions a second, however many daemons ask. Each daemon knows about
// how many there are (KeysAge), and takes its part. A cluster of up to kSmall daemons can do what it likes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace uopd::cache {

struct Pace {
  int64_t daemons = 0;  // in the cluster, about; 0: not known, and then it is taken for a small one

  static constexpr int64_t kSmall = 2'000;
  // An announcement wakes all listeners whose question waits at the server, for 5 us of its time each: 20 ms, which is the
  // time that a lookup waits. In a larger cluster no question waits there.
  static constexpr int64_t kMostThatWait = 4'000;
  static constexpr int64_t kQuestionsASecond = 10'000;  // of all listeners
  static constexpr int64_t kMostWeight = 256;

  // What costs a daemon of a small cluster one of its records or answers costs so many here, so that all of a cluster
  // together have no more of them than kSmall daemons.
  int Weight() const {
    return static_cast<int>(std::clamp<int64_t>((daemons + kSmall - 1) / kSmall, 1, kMostWeight));
  }
  bool WaitsAtServer() const { return daemons <= kMostThatWait; }
  // Between two questions of a listener that gathers: `least`, or longer.
  std::chrono::milliseconds Gather(std::chrono::milliseconds least) const {
    return std::max(least, std::chrono::milliseconds(1000 * daemons / kQuestionsASecond));
  }
  // The longest pause of the circuit breaker after answers that came too late; a pause that is not longer than that after
  // other failures changes nothing. Each try costs the server a connection, which is 50 us: the tries of all daemons together
  // take a tenth of its time.
  int64_t MostLatePauseUs() const {
    return std::min<int64_t>(daemons * 1'000'000 / kSmall, 60'000'000);
  }
};

}  // namespace uopd::cache
