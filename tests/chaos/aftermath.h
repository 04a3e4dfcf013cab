// SPDX-License-Identifier: MIT
// What must hold once all clients have left: nothing is in flight, nothing leaked, the daemon ends
// in time, and the next daemon can read its files.
#pragma once
#include "tests/chaos/world.h"
#include "tests/support/footprint.h"

namespace uopd::chaos {

struct AftermathLimits {
  test::Footprint idle;  // of the daemon that serves nobody
  double drain_s = 30;   // server.drain_timeout_ms
  double settle_s = 20;  // until the sessions have ended
};

// REQUIRES: the world is over and no actor acts. Ends the daemon.
void CheckAftermath(World& world, const AftermathLimits& limits);

// The integrity check of a file of SQLite, which a daemon may have open. Counts it, and a violation
// if it does not hold.
void CheckDatabase(Report& report, const std::string& file);

// Returns the seconds that a daemon needs to end after SIGTERM. Checks this time, the daemon's exit
// status and its children.
double CheckStop(World& world, double drain_s);

}  // namespace uopd::chaos
