// SPDX-License-Identifier: MIT
// The processes below another one, as /proc shows them.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace uopd::testing {

struct Process {
  pid_t pid = -1;
  std::string name;       // at most 15 bytes
  char state = '?';       // 'Z': ended, and nobody has asked for its status yet
  int64_t cpu_ticks = 0;  // user and system
};

// Children, their children and so on; sorted by pid. What starts or ends meanwhile may be missing.
std::vector<Process> Descendants(pid_t root);
// False once the process has ended, also when its status has not been asked for.
bool IsAlive(pid_t pid);

}  // namespace uopd::testing
