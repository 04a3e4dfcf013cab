// SPDX-License-Identifier: MIT
// Pace: how much a daemon may ask of the shared server beside what it needs now, in a cluster of so
// many daemons.
//
// The server is one thread that serves about 100,000 questions a second, however many daemons ask.
// Each daemon knows about how many there are (KeysAge), and takes its part. A cluster of up to
// kSmall daemons can do what it likes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace uopd::cache {

struct Pace {
  int64_t daemons = 0;  // in the cluster, about; 0: not known, and then it is taken for a small one

  static constexpr int64_t kSmall = 2'000;
  static constexpr int64_t kQuestionsASecond = 10'000;  // of all listeners
  static constexpr int64_t kMostWeight = 256;
  static constexpr int64_t kMostDaemons = kMostWeight * kSmall;  // whatever a server claims

  // What costs a daemon of a small cluster one of its records or answers costs so many here, so
  // that all of a cluster together have no more of them than kSmall daemons.
  int Weight() const {
    return static_cast<int>(std::clamp<int64_t>((daemons + kSmall - 1) / kSmall, 1, kMostWeight));
  }
  // Whether a listener's question waits at the server until something is announced. An announcement
  // wakes all that wait there, and they ask again: of kSmall daemons this takes 26 ms of the
  // server's time, in which no lookup is answered.
  bool WaitsAtServer() const { return daemons <= kSmall; }
  // Between two questions that can wait, as those of a listener that gathers: `least`, or longer.
  std::chrono::milliseconds Gather(std::chrono::milliseconds least) const {
    return std::max(least, std::chrono::milliseconds(1000 * daemons / kQuestionsASecond));
  }
  // How long it takes until a server that lost its keys has them again (refill.h). A pass lasts
  // some ms, and several run at once: 1 ms for each daemon. Besides, a daemon may look some times,
  // every 16 s, until it finds that no other one fills: the more often the more there are, and six
  // times in a large cluster.
  int64_t RefillUs() const {
    const int64_t more = std::max<int64_t>(daemons - kSmall, 0);
    return std::min<int64_t>(more * 12'500, 100'000'000) + more * 1'000;
  }
  // The longest pause of the circuit breaker after answers that came too late, if it is longer than
  // that after other failures. Each try costs the server a connection, which is 50 us: the tries of
  // all daemons together take about a tenth of its time.
  static constexpr int64_t kMostLatePauseUs = 60'000'000;
  int64_t MostLatePauseUs() const {
    return std::min<int64_t>(daemons * 1'000'000 / kSmall, kMostLatePauseUs);
  }
};

}  // namespace uopd::cache
