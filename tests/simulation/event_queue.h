// SPDX-License-Identifier: MIT
// EventQueue: what happens next in simulated time.
//
// Events of one time happen in the order in which they were added, so a run is decided by its seed
// alone. While an event is handled, the handler may move the clock on: that is the time which its
// own calls take (server_link.h). The next event sets the clock to its own time again. One thread.
#pragma once
#include <cstdint>
#include <vector>

#include "cache/base/wait/wait.h"

namespace uopd::sim {

inline constexpr int64_t kMs = 1'000, kSecond = 1'000'000, kMinute = 60 * kSecond,
                         kHour = 60 * kMinute;

// Microseconds since the simulation began.
struct SimClock {
  int64_t now_us = 0;

  cache::Deadline steady() const { return cache::Deadline(std::chrono::microseconds(now_us)); }
  // The date: tokens of leases and times of rows follow it.
  int64_t wall_us() const { return 1'800'000'000 * kSecond + now_us; }
  static int64_t Of(cache::Deadline deadline) {
    return std::chrono::duration_cast<std::chrono::microseconds>(deadline.time_since_epoch())
        .count();
  }
};

class Actor {
 public:
  virtual ~Actor() = default;
  // `what` and `arg` are those of the event.
  virtual void Wake(uint32_t what, uint64_t arg) = 0;
};

class EventQueue {
 public:
  explicit EventQueue(SimClock& clock) : clock_(clock) {}

  // Wakes `who` at `at_us`, or now if that is in the past. `who` outlives the event.
  void At(int64_t at_us, Actor& who, uint32_t what, uint64_t arg = 0);
  // Lets the first event happen. False: there is none until `end_us`; the clock is there then.
  bool Step(int64_t end_us);
  // The time of the event that happens now: nothing can happen before.
  int64_t now_us() const { return last_us_; }
  int64_t events() const { return events_; }
  size_t waiting() const { return heap_.size(); }

 private:
  struct Event {
    int64_t at_us;
    uint64_t order;
    Actor* who;
    uint64_t arg;
    uint32_t what;
    bool operator<(const Event& other) const {  // the heap has its greatest element in front
      return at_us != other.at_us ? at_us > other.at_us : order > other.order;
    }
  };
  SimClock& clock_;
  std::vector<Event> heap_;
  uint64_t order_ = 0;
  int64_t events_ = 0;
  int64_t last_us_ = 0;  // of the event that happens now
};

}  // namespace uopd::sim
