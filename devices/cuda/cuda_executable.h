// SPDX-License-Identifier: MIT
// A kernel that is loaded in a CUDA context, and its launches.
//
// Kernel ABI: `extern "C" __global__ void ENTRY(...)` with one pointer for each buffer, one long long
// for each variable, and a pointer to the stop word, a const volatile int. All arguments have 8
// bytes. Shared memory is `extern __shared__`, of LaunchShape::shared_bytes.
//
// Immutable but for the largest shared memory that the driver was told of. Thread-safe.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/device.h"
#include "devices/cuda/cuda_context.h"

namespace uopd::devices::cuda {

class CudaExecutable final : public Executable {
 public:
  // `image` is a cubin. INTERNAL: the driver does not take it, or it has no such entry.
  static absl::StatusOr<std::shared_ptr<CudaExecutable>> Load(std::shared_ptr<Device> device,
                                                              std::shared_ptr<CudaContext> context,
                                                              const std::string& image,
                                                              const KernelCode& kernel_code);
  ~CudaExecutable() override;

  CuFunction function() const { return function_; }
  // Allows launches with that much shared memory. REQUIRES: context->Enter().
  absl::Status AllowShared(int64_t bytes) UOPD_EXCLUDES(mu_);

 private:
  CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<CudaContext> context,
                 const KernelCode& kernel_code)
      : Executable(std::move(device), kernel_code.entry, kernel_code.args),
        context_(std::move(context)) {}

  const std::shared_ptr<CudaContext> context_;
  CuModule module_ = nullptr;      // constant after Load
  CuFunction function_ = nullptr;  // constant after Load
  Mutex mu_;
  int64_t shared_bytes_ UOPD_GUARDED_BY(mu_) = int64_t{48} << 10;  // allowed without asking
};

// The arguments of one launch as one block of bytes, and the list by which the driver takes it. Not
// copyable: the list points into the object.
class LaunchArguments {
 public:
  LaunchArguments(std::vector<CuPointer> buffers, std::span<const int64_t> vars, CuPointer stop);
  LaunchArguments(const LaunchArguments&) = delete;
  LaunchArguments& operator=(const LaunchArguments&) = delete;
  void** extra() { return extra_; }

 private:
  std::vector<uint64_t> values_;
  size_t bytes_;
  void* extra_[5];
};

}  // namespace uopd::devices::cuda
