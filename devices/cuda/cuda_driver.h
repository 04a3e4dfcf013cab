// SPDX-License-Identifier: MIT
// The CUDA driver of this process: gpu::GpuDriver on NVIDIA's library, with what only CUDA has.
//
// One for the process (Process), and one for each fake driver of a test. Thread-safe.
#pragma once
#include <memory>

#include "devices/cuda/cuda_symbols.h"
#include "devices/gpu/gpu_driver.h"

namespace uopd::devices::cuda {

class CudaDriver final : public gpu::GpuDriver {
 public:
  // Calls cuInit and counts the devices.
  static absl::StatusOr<std::unique_ptr<CudaDriver>> Create(const CudaApi& cuda);
  // The driver behind libcuda.so.1. After a failure the next call tries again.
  static absl::StatusOr<CudaDriver*> Process();

  const CudaApi& cuda() const { return cuda_; }
  int version() const { return version_; }  // 12040 is 12.4

 private:
  explicit CudaDriver(const CudaApi& cuda);

  const CudaApi cuda_;
  int version_ = 0;  // constant after Create
};

}  // namespace uopd::devices::cuda
