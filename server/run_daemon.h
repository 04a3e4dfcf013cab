// SPDX-License-Identifier: MIT
// The whole program: reads the settings, starts the fork server of the workers and the daemon,
// waits for signals.
#pragma once
#include <vector>

#include "server/worker/worker_process.h"

namespace uopd {

// Called first in main. `jobs` are those that the workers know. Returns the exit code.
int RunDaemon(int argc, char** argv, const std::vector<worker::JobHandler>& jobs);

}  // namespace uopd
