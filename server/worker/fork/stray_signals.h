// SPDX-License-Identifier: MIT
// Signals that nobody needs here, and that end a process unless it says otherwise: somebody who
// asks another program for its state with SIGUSR1 must not end this one.
//
// SIGXFSZ comes to who writes a file beyond a limit of its size: the write fails as well, which is
// enough. SIGQUIT and SIGABRT are not among them: they end a process on purpose.
#pragma once
#include <csignal>

namespace uopd::worker {

// Holds for the processes that this one starts, too. A profiler that wants one of the signals sets
// its own handler later.
inline void IgnoreStraySignals() {
  for (const int signal :
       {SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPIPE, SIGPROF, SIGIO, SIGPWR, SIGXFSZ}) {
    std::signal(signal, SIG_IGN);
  }
}

}  // namespace uopd::worker
