// SPDX-License-Identifier: MIT
// What an AMD device is: the driver's answers as plain facts, and the Target and DeviceInfo that
// follow from them. Pure functions but for ReadHipFacts. Errors: those of the driver's calls.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/base/target/target.h"
#include "devices/api/device_info.h"
#include "devices/hip/hip_driver.h"

namespace uopd::devices::hip {

struct HipFacts {
  std::string name;       // "AMD Instinct MI300X"
  std::string bus_id;     // "0000:3b:00.0": the chip, however the devices are numbered
  std::string processor;  // "gfx942"
  int units = 1;
  int warp_lanes = 64;
  int max_block_threads = 1024;
  int max_block[3] = {1, 1, 1};
  int max_grid[3] = {1, 1, 1};
  int64_t shared_bytes = 0;  // of a block
  int64_t l2_bytes = 0;
  int64_t clock_hz = 0;
  size_t total_bytes = 0;
};

// UNIMPLEMENTED: the driver does not name the processor.
absl::StatusOr<HipFacts> ReadHipFacts(const HipDriver& driver, int index);
// What a chip says that nobody has asked: the largest one of the architecture. nullopt: no such one
// is known.
std::optional<HipFacts> KnownHipFacts(std::string_view processor);
// All of the target but `toolchain`, which the compiler decides.
Target DescribeHip(const HipFacts& facts);
DeviceInfo HipInfo(const HipFacts& facts, int index, size_t limit_bytes);

}  // namespace uopd::devices::hip
