// SPDX-License-Identifier: MIT
// A single operation that a library in a Python process does (tests/perf/peers/kernels.py).
#pragma once
#include <string>

#include "tests/perf/peers/peer_process.h"
#include "tests/perf/peers/peers.h"

namespace uopd::perf {

// `question`: what kernels.py is asked for, in a process that starts now.
PeerRun ProcessPeer(const std::string& name, PeerProcess::Python python,
                    const std::string& question);

}  // namespace uopd::perf
