// SPDX-License-Identifier: MIT
#include "server/engine/run/give_way.h"

#include <algorithm>
#include <thread>

namespace uopd::engine {

void GiveWay(DeviceState& device, std::chrono::nanoseconds worked, RunControl& control) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kPoll = std::chrono::milliseconds(1);
  const auto until = Clock::now() + (kMostSlowdown - 1) * worked;
  for (Clock::time_point now; (now = Clock::now()) < until;) {
    if (device.client_runs().runs() == 0 || !control.Check().ok()) return;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPoll, until - now));
  }
}

}  // namespace uopd::engine
