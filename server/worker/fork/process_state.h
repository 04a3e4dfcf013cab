// SPDX-License-Identifier: MIT
// What /proc says about a process.
#pragma once
#include <sys/types.h>

#include <chrono>

namespace uopd::worker {

// True if a signal stopped the process (SIGSTOP and similar). False for a process that waits,
// sleeps, is traced by a debugger, or has ended.
bool IsStopped(pid_t pid);

// Detects a process that is stopped at two checks in a row. So a process that is stopped for a
// moment and then continues is not reported. Used by one thread.
class StopWatch {
 public:
  using Clock = std::chrono::steady_clock;

  StopWatch(pid_t pid, Clock::duration between) : pid_(pid), between_(between) {}

  // May be called often: it reads the state only when the next check is due.
  bool SeesStopped();

 private:
  const pid_t pid_;
  const Clock::duration between_;
  Clock::time_point next_ = Clock::now() + between_;
  bool was_ = false;
};

}  // namespace uopd::worker
