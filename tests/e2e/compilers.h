// SPDX-License-Identifier: MIT
// The processes of a daemon by name, and signals for those that compile.
#pragma once
#include <string>
#include <vector>

#include "tests/support/processes.h"

namespace uopd::e2e {

// The descendants of `daemon` with this name that are not zombies.
std::vector<test::Process> Named(pid_t daemon, const std::string& name);

// Sends `signal` to a compiler of one of `daemons` that is in the middle of its work, which means
// that it has worked for a while since this call began (a worker that has just answered an earlier
// job is also busy for a moment). Returns the daemon. If no compiler was busy for a minute, returns
// 0 and fails the test.
pid_t HitCompiler(const std::vector<pid_t>& daemons, int signal);

}  // namespace uopd::e2e
