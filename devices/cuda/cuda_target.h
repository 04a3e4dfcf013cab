// SPDX-License-Identifier: MIT
// What a CUDA device is: the driver's attributes as plain facts, and the Target and DeviceInfo that
// follow from them. Pure functions but for ReadCudaFacts. Errors: those of the driver's calls.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "core/base/target/target.h"
#include "devices/api/device_info.h"
#include "devices/cuda/cuda_driver.h"

namespace uopd::devices::cuda {

// The capability whose chips have instructions of their own that kernels use: wgmma.
inline constexpr int kSpecificCapability = 90;

struct CudaFacts {
  std::string name;       // "NVIDIA H100 80GB HBM3"
  std::string bus_id;     // "0000:3b:00.0": the processor, however the devices are numbered
  int capability = 0;     // 90 is 9.0
  bool specific = false;  // code may use what only chips of exactly this capability have: "sm_90a"
  int units = 1;
  int warp_lanes = 32;
  int max_block_threads = 1024;
  int max_block[3] = {1, 1, 1};
  int max_grid[3] = {1, 1, 1};
  int64_t shared_bytes = 0;       // of a block, with the attribute that allows it
  int64_t unit_shared_bytes = 0;  // of a processor: its first-level cache and shared memory
  int64_t l2_bytes = 0;
  int64_t clock_hz = 0;
  size_t total_bytes = 0;

  std::string arch() const;  // "sm_90"
};

// UNAVAILABLE: the device's mode forbids contexts. UNIMPLEMENTED: the device has no unified
// addresses.
absl::StatusOr<CudaFacts> ReadCudaFacts(const CudaDriver& driver, int index);
// What a chip says that nobody has asked: the largest one of the architecture. nullopt: no such one
// is known.
std::optional<CudaFacts> KnownCudaFacts(std::string_view arch);
// All of the target but `format` and `toolchain`, which the compiler decides.
Target DescribeCuda(const CudaFacts& facts);
DeviceInfo CudaInfo(const CudaFacts& facts, int index, size_t limit_bytes);

}  // namespace uopd::devices::cuda
