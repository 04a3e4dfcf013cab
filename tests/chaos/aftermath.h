// SPDX-License-Identifier: MIT
// What must hold once everybody has left: nothing in flight, nothing leaked, an end in time, and
// files that the next daemon can read.
#pragma once
#include "tests/chaos/world.h"

namespace uopd::chaos {

// What a daemon has that serves nobody.
struct Footprint {
  int descriptors = 0, memfds = 0, children = 0;
};
Footprint FootprintOf(pid_t pid);

struct AftermathLimits {
  Footprint idle;
  double drain_s = 30;   // server.drain_timeout_ms
  double settle_s = 20;  // until sessions have ended
};

// REQUIRES: the world is over and no actor acts. Ends the daemon.
void CheckAftermath(World& world, const AftermathLimits& limits);

// The seconds that it takes a daemon to end after SIGTERM; checks them, its status and its
// children.
double CheckStop(World& world, double drain_s);

}  // namespace uopd::chaos
