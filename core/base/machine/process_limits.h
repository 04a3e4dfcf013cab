// SPDX-License-Identifier: MIT
// What this process may use of the machine: memory and processors, by the machine itself, by its
// control groups and by its affinity.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/base/machine/control_groups.h"

namespace uopd {

struct ProcessLimits {
  int64_t machine_bytes = 0;  // RAM
  std::optional<ControlGroups::Memory>
      memory;        // of the control groups, if that is less than the RAM
  int affinity = 1;  // processors that its threads may run on
  std::optional<ControlGroups::Processors> quota;  // if that is less than the affinity

  // As they are now.
  static ProcessLimits Read(const ControlGroups& groups);
  // As they were when this was first called. The numbers of threads come from here, so that they
  // fit each other. Thread-safe.
  static const ProcessLimits& AtStart();

  int64_t memory_bytes() const { return memory ? memory->bytes : machine_bytes; }
  // How many threads that compute make sense: at least 1.
  int processors() const;

  // "4 GiB (cgroup /system.slice/uopd.service)", "15.6 GiB (RAM)"
  std::string MemoryText() const;
  // "2 (quota of cgroup /user.slice)", "8 (affinity)"
  std::string ProcessorsText() const;
};

// ProcessLimits::AtStart().processors()
int UsableProcessors();
// Processors that the threads of this process may run on now.
int AffinityProcessors();

// "1.5 GiB", "37 MiB", "900 bytes": for people.
std::string BytesText(int64_t bytes);

}  // namespace uopd
