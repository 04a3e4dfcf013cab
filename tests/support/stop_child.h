// SPDX-License-Identifier: MIT
#pragma once
#include <sys/types.h>
#include <sys/wait.h>

#include <csignal>

namespace uopd::test {

// Stops a child of this process (SIGSTOP), and waits until all its threads stand still. One thread
// of the child takes the signal. Until that thread runs, which is late on a busy machine, the other
// threads go on.
inline void StopChild(pid_t pid) {
  kill(pid, SIGSTOP);
  siginfo_t stopped;
  waitid(P_PID, static_cast<id_t>(pid), &stopped, WSTOPPED | WEXITED | WNOWAIT);
}

}  // namespace uopd::test
