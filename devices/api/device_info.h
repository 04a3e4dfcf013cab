// SPDX-License-Identifier: MIT
// What the daemon knows about a device and what no kernel depends on. Plain data, fixed when the
// device opens. The facts that decide code are in Target.
#pragma once
#include <cstdint>
#include <string>

namespace uopd::devices {

struct DeviceInfo {
  std::string name;   // "CPU:0", in the registry's spelling
  std::string model;  // of the chip, as its maker names it: "NVIDIA H200". Empty: unknown
  // The processor that the device uses. Devices with the same word compete for one processor: a
  // kernel on one device disturbs the measured times of kernels on the other.
  std::string processor = "host";
  int64_t max_buffer_bytes = 0;  // largest single allocation
  int64_t total_bytes = 0;       // for all allocations together, pooled memory included
  // Upper bound of the speed: operations on single values per second, all threads together. No
  // kernel can exceed it. 0: unknown. Work that cannot finish in time is refused by this number, so
  // a value that is too large is safe, and a value that is too small is not.
  double peak_ops = 0;
  // True: a call that queues work returns when the work is done, and the work takes the calling
  // thread's time. Exception: a Wait that is not yet met is ahead in the queue.
  bool runs_inline = false;
  // True: the device is not here. Its kernels are compiled, and nothing runs
  // (devices/gpu/compile_only_device.h).
  bool compiles_only = false;
  // The instructions that kernels may use, as the operator named them. Empty: all that the device
  // has.
  std::string baseline;
};

}  // namespace uopd::devices
