// SPDX-License-Identifier: MIT
// The name of a process: no other process of any machine has it, at any time.
#pragma once
#include <cstdint>
#include <string>

namespace uopd {

struct ProcessName {
  std::string boot_id;         // of the running kernel; empty: it is the name of no process
  uint64_t pid_namespace = 0;  // in which `pid` is the number of the process
  int64_t pid = 0;
  uint64_t start_time = 0;  // in clock ticks since the machine started

  // Of the calling process. Of no process where /proc does not tell.
  static ProcessName OfThisProcess();
};

// When the process of this number of the own PID namespace started, as in ProcessName. 0: there is
// none, or it cannot be told.
uint64_t StartTimeOf(int64_t pid);

}  // namespace uopd
