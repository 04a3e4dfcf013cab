// SPDX-License-Identifier: MIT
// What the daemon knows of a device and no kernel depends on: plain data, fixed when the device
// opens. What decides code is in Target.
#pragma once
#include <cstdint>
#include <string>

namespace uopd::devices {

struct DeviceInfo {
  std::string name;              // "CPU:0", as the registry spells it
  int64_t max_buffer_bytes = 0;  // largest single allocation
  int64_t total_bytes = 0;       // all allocations together, pooled memory included
  // Operations on single values a second that no kernel can exceed, all threads together; 0: not
  // known. Refuses work that cannot be done in time, so too large is safe and too small is not.
  double peak_ops = 0;
};

}  // namespace uopd::devices
