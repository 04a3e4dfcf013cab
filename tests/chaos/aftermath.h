// SPDX-License-Identifier: MIT
// What must hold once all clients have left: nothing is in flight, nothing leaked, the daemon ends
// in time, and the next daemon can read its files.
#pragma once
#include "tests/chaos/world.h"

namespace uopd::chaos {

// The resources of a daemon that serves nobody.
struct Footprint {
  int descriptors = 0, memfds = 0, children = 0;
};
Footprint FootprintOf(pid_t pid);

struct AftermathLimits {
  Footprint idle;
  double drain_s = 30;   // server.drain_timeout_ms
  double settle_s = 20;  // until the sessions have ended
};

// REQUIRES: the world is over and no actor acts. Ends the daemon.
void CheckAftermath(World& world, const AftermathLimits& limits);

// Returns the seconds that a daemon needs to end after SIGTERM. Checks this time, the daemon's exit
// status and its children.
double CheckStop(World& world, double drain_s);

}  // namespace uopd::chaos
