// SPDX-License-Identifier: MIT
// CUDA: devices of NVIDIA through the driver's library, which is opened at run time.
//
// The text of kernels is CUDA C++ if libnvrtc is found. Otherwise it is PTX, which uopd-ptxc
// compiles if that program is there, and else the driver. Objects are cubins. The rest is as for
// other GPUs (devices/gpu/gpu_device.h). Owned by shared_ptr; thread-safe.
#pragma once
#include <chrono>
#include <memory>

#include "devices/cuda/cuda_driver.h"
#include "devices/cuda/nvrtc_compiler.h"
#include "devices/gpu/gpu_device.h"

namespace uopd::devices::cuda {

struct CudaOptions {
  int index = 0;                  // n of "CUDA:n"
  size_t memory_limit_bytes = 0;  // 0: nine tenths of the device's memory
  MemoryPattern pattern;
  bool ptx = false;                              // take PTX, even if libnvrtc is there
  bool specific = false;                         // of capability 9.0: code for sm_90a
  bool graphs = true;                            // recorded sequences are CUDA graphs
  std::chrono::milliseconds stop_grace{10'000};  // for a kernel that was told to stop
  CudaDriver* driver = nullptr;                  // null: the one of the process
  const NvrtcApi* nvrtc = nullptr;               // null: the library's
  std::string ptxc;                              // path of uopd-ptxc; "": PtxcProgram()
};

class CudaDevice final : public gpu::GpuDevice {
 public:
  // UNAVAILABLE: no driver, no such device, or a lost device that still works. Else the driver's
  // status.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Open(const CudaOptions& options);

 private:
  using GpuDevice::GpuDevice;
};

// CUDA:index as a chip that is not here, such as sm_90. NOT_FOUND: no such chip is known.
// UNAVAILABLE: neither libnvrtc nor uopd-ptxc is found. `options.driver` is not used.
absl::StatusOr<std::shared_ptr<Device>> OpenCompileOnly(const CudaOptions& options,
                                                        std::string_view arch);
// Number of devices: 0 without a driver.
int CountCudaDevices();
// A compiler that needs no GPU, for a toolchain of a CUDA device. UNIMPLEMENTED: the toolchain
// needs the device. Other errors as NvrtcCompiler.
absl::StatusOr<std::shared_ptr<const Compiler>> CudaCompilerFor(std::string_view toolchain);

}  // namespace uopd::devices::cuda
