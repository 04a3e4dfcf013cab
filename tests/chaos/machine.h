// SPDX-License-Identifier: MIT
// Machine: the share of this machine's processors that is left for this program and what it
// started.
//
// What other programs take makes everything here slower, and limits of time are longer by that
// factor. It is measured by counters of the kernel (/proc/stat, /proc/PID/stat), so the load of
// this program is no excuse. One exception: when a process of this program is killed and nobody
// waits for it, its time counts as that of others once.
#pragma once
#include <cstdint>

namespace uopd::chaos {

class Machine {
 public:
  Machine();
  // How many times as long as on an idle machine work took since the last call: 1 if others took
  // nothing, 2 if they took half of all processor time. At most 50.
  double Slowdown();

 private:
  struct Ticks {
    int64_t all = 0;     // of all processors, idle or not
    int64_t others = 0;  // taken by other programs, or by other virtual machines
  };
  static Ticks Read();

  Ticks last_;
};

}  // namespace uopd::chaos
