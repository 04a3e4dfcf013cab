// SPDX-License-Identifier: MIT
// What a device is: plain data, fixed when the device opens. `features` and `toolchain` go into
// cache keys.
#pragma once
#include <cstdint>
#include <string>

namespace uopd::devices {

struct DeviceLimits {
  int64_t max_grid[3] = {1, 1, 1};
  int64_t max_block[3] = {1, 1, 1};
  int64_t max_block_threads = 1;  // product of a block's dimensions
  int64_t shared_bytes = 0;       // on-chip memory of one block
  int64_t max_buffer_bytes = 0;   // largest single allocation
  int64_t total_bytes = 0;        // all allocations together, pooled memory included
  int max_kernel_buffers = 0;     // that one kernel may take, at least 4; 0: any number
};

struct DeviceInfo {
  std::string name;       // "CPU:0", as the registry spells it
  std::string kind;       // "cpu", "null", ...
  std::string arch;       // "x86_64", "sm_90", ...
  std::string features;   // what the code generator may use, sorted: decides code, so it is part of
                          // cache keys
  std::string toolchain;  // all else that decides compiled bytes: compiler version, flags, target
  DeviceLimits limits;
  int vector_bytes = 0;      // width of a vector register
  int hardware_threads = 1;  // how many instances of a kernel run at the same time
  // Operations on single values a second that no kernel can exceed, all instances together; 0: not
  // known. Refuses work that cannot be done in time, so too large is safe and too small is not.
  double peak_ops = 0;
};

}  // namespace uopd::devices
