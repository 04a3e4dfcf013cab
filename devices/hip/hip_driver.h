// SPDX-License-Identifier: MIT
// AMD's HIP in this process: gpu::GpuDriver on libamdhip64. HIP has one context for each device,
// and no handles of them; the handle here is the number of the device.
//
// One for the process (Process), and one for each fake driver of a test. Thread-safe.
#pragma once
#include <memory>

#include "devices/gpu/gpu_driver.h"
#include "devices/hip/hip_symbols.h"

namespace uopd::devices::hip {

class HipDriver final : public gpu::GpuDriver {
 public:
  // Calls hipInit and counts the devices.
  static absl::StatusOr<std::unique_ptr<HipDriver>> Create(const HipApi& hip);
  // The driver behind libamdhip64. After a failure the next call tries again.
  static absl::StatusOr<HipDriver*> Process();

  const HipApi& hip() const { return hip_; }

 private:
  explicit HipDriver(const HipApi& hip);

  const HipApi hip_;
};

}  // namespace uopd::devices::hip
