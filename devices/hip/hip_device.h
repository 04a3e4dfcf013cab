// SPDX-License-Identifier: MIT
// AMD: devices of AMD through HIP, whose library is opened at run time.
//
// The text of kernels is LLVM IR, which uopd compiles itself (amdgpu_compiler.h), or HIP C++, which
// ROCm's hiprtc compiles (hiprtc_compiler.h): if the options ask for it, or where the first way
// does not work. Objects are code objects. The rest is as for other GPUs
// (devices/gpu/gpu_device.h), but that a kernel declares its shared memory, and that HIP ends the
// process where a kernel accesses memory that is not there. Owned by shared_ptr; thread-safe.
#pragma once
#include <chrono>
#include <memory>
#include <optional>

#include "devices/gpu/gpu_device.h"
#include "devices/hip/amdgpu_compiler.h"
#include "devices/hip/hip_driver.h"
#include "devices/hip/hiprtc_compiler.h"

namespace uopd::devices::hip {

struct HipOptions {
  int index = 0;                  // n of "AMD:n"
  size_t memory_limit_bytes = 0;  // 0: nine tenths of the device's memory
  MemoryPattern pattern;
  bool graphs = false;                             // recorded sequences are HIP graphs
  std::chrono::milliseconds stop_grace{10'000};    // for a kernel that was told to stop
  HipDriver* driver = nullptr;                     // null: the one of the process
  std::string lld;                                 // path of the linker; "": LldProgram()
  bool hiprtc = false;                             // compile through hiprtc alone
  const HiprtcApi* hiprtc_api = nullptr;           // null: LoadHiprtc()
  std::shared_ptr<const Compiler> maybe_compiler;  // of LLVM IR; null: as said above
  std::optional<Target> maybe_target;  // what maybe_compiler compiles for; none: the chip
};

class HipDevice final : public gpu::GpuDevice {
 public:
  // UNAVAILABLE: no driver, no such device, no compiler, or a lost device that still works. Else
  // the driver's status.
  static absl::StatusOr<std::shared_ptr<HipDevice>> Open(const HipOptions& options);

 private:
  using GpuDevice::GpuDevice;
};

// AMD:index as a chip that is not here, such as gfx942. NOT_FOUND: no such chip is known.
// UNAVAILABLE: no compiler is found. `options.driver` is not used.
absl::StatusOr<std::shared_ptr<Device>> OpenCompileOnly(const HipOptions& options,
                                                        std::string_view processor);
// Number of devices: 0 without a driver.
int CountHipDevices();
// A compiler that needs no GPU, for a toolchain of an AMD device. Errors as AmdgpuCompiler and
// HiprtcCompiler.
absl::StatusOr<std::shared_ptr<const Compiler>> HipCompilerFor(std::string_view toolchain);

}  // namespace uopd::devices::hip
