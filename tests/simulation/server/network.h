// SPDX-License-Identifier: MIT
// Network: how long messages between daemons and the server take, and who is cut off.
//
// One way takes `least_us` and an exponential rest; a message is lost now and then and sent again
// by TCP after `again_us`.
#pragma once
#include "tests/simulation/event_queue.h"
#include "tests/simulation/random.h"

namespace uopd::sim {

struct NetworkOptions {
  int64_t least_us = 80;
  double rest_us = 40;
  double loss = 1e-5;
  int64_t again_us = 200 * kMs;
};

class Network {
 public:
  Network(const NetworkOptions& options, uint64_t seed) : options_(options), random_(seed) {}

  // The time that one message takes on its way.
  int64_t Delay() {
    auto delay = options_.least_us + static_cast<int64_t>(random_.Exponential(options_.rest_us));
    while (random_.Unit() < options_.loss) delay += options_.again_us;
    return delay;
  }

 private:
  const NetworkOptions options_;
  Random random_;
};

}  // namespace uopd::sim
