// SPDX-License-Identifier: MIT
// The processes of a daemon by name, and signals for those that compile.
#pragma once
#include <string>
#include <vector>

#include "tests/support/processes.h"

namespace uopd::e2e {

// The descendants of `daemon` with this name that are not zombies.
std::vector<testing::Process> Named(pid_t daemon, const std::string& name);

// Sends `signal` to a compiler of one of `daemons` that is in the middle of its work: one that has
// worked for a while since this call began. A worker that has just answered an earlier job is busy
// for a moment too. Returns the daemon; 0, and a failure of the test, if none was busy for a
// minute.
pid_t HitCompiler(const std::vector<pid_t>& daemons, int signal);

}  // namespace uopd::e2e
