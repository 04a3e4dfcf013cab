// SPDX-License-Identifier: MIT
// What a process holds, read from /proc.
#pragma once
#include <sys/types.h>

namespace uopd::test {

struct Footprint {
  int descriptors = 0, memfds = 0;  // memfds are descriptors too
  int children = 0, zombies = 0;    // with children of children; zombies are children too
  double resident_mib = 0;
};
// Zeros for a process that has ended.
Footprint FootprintOf(pid_t pid);

}  // namespace uopd::test
