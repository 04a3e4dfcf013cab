// SPDX-License-Identifier: MIT
// Descendants of a process, read from /proc.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace uopd::test {

struct Process {
  pid_t pid = -1;
  std::string name;         // at most 15 bytes
  char state = '?';         // as in /proc; 'Z': ended, but not waited for
  int64_t cpu_ticks = 0;    // user plus system time
  int64_t ended_ticks = 0;  // of children that ended and were waited for, and of theirs
};

// Children, grandchildren and so on, sorted by pid. Processes that start or end during the call may
// be missing.
std::vector<Process> Descendants(pid_t root);
// Processor time of a process and all its descendants, those that ended and were waited for
// included. Less than before if a descendant ended and its parent did not wait for it.
int64_t TicksOfTree(pid_t root);
// False once the process has ended, even if it was not waited for.
bool IsAlive(pid_t pid);

}  // namespace uopd::test
