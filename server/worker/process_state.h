// SPDX-License-Identifier: MIT
// What /proc says about a process.
#pragma once
#include <sys/types.h>

#include <chrono>

namespace uopd::worker {

// Whether a signal stopped the process (SIGSTOP and its like). False for one that waits, sleeps, is
// traced by a debugger or has ended.
bool IsStopped(pid_t pid);

// Says that a process was stopped at two looks in a row, so that one that is stopped for a moment
// and goes on is let be. One thread.
class StopWatch {
 public:
  using Clock = std::chrono::steady_clock;

  StopWatch(pid_t pid, Clock::duration between) : pid_(pid), between_(between) {}

  // May be asked often: looks only when it is time.
  bool SeesStopped();

 private:
  const pid_t pid_;
  const Clock::duration between_;
  Clock::time_point next_ = Clock::now() + between_;
  bool was_ = false;
};

}  // namespace uopd::worker
