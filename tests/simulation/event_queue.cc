// SPDX-License-Identifier: MIT
#include "tests/simulation/event_queue.h"

#include <algorithm>

namespace uopd::sim {

void EventQueue::At(int64_t at_us, Actor& who, uint32_t what, uint64_t arg) {
  heap_.push_back({std::max(at_us, last_us_), order_++, &who, arg, what});
  std::push_heap(heap_.begin(), heap_.end());
}

bool EventQueue::Step(int64_t end_us) {
  if (heap_.empty() || heap_.front().at_us > end_us) {
    clock_.now_us = last_us_ = end_us;
    return false;
  }
  std::pop_heap(heap_.begin(), heap_.end());
  const Event event = heap_.back();
  heap_.pop_back();
  ++events_;
  clock_.now_us = last_us_ = event.at_us;
  event.who->Wake(event.what, event.arg);
  return true;
}

}  // namespace uopd::sim
