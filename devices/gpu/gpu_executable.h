// SPDX-License-Identifier: MIT
// A kernel that is loaded in the context of a GPU, and its launches.
//
// Kernel ABI: `extern "C" __global__ void ENTRY(...)` with one pointer for each buffer, one long
// long for each variable, and a pointer to the stop word, a const volatile int. All of these have 8
// bytes. Then the maps of LaunchShape::maps, by value. Shared memory is `extern __shared__`, of
// LaunchShape::shared_bytes.
//
// Immutable but for the largest shared memory that the driver was told of. Thread-safe.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "devices/api/device.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::gpu {

class GpuExecutable final : public Executable {
 public:
  // `image` is what the compiler made. INTERNAL: the driver does not take it, or it has no such
  // entry.
  static absl::StatusOr<std::shared_ptr<GpuExecutable>> Load(std::shared_ptr<Device> device,
                                                             std::shared_ptr<GpuContext> context,
                                                             const std::string& image,
                                                             const KernelCode& kernel_code);
  ~GpuExecutable() override;

  FunctionHandle function() const { return function_; }
  // The shared memory that a launch adds for a kernel that needs `bytes` in all.
  unsigned AddedShared(int64_t bytes) const {
    return context_->api().static_shared ? 0 : static_cast<unsigned>(bytes);
  }
  // Allows launches with that much shared memory. REQUIRES: context->Enter().
  absl::Status AllowShared(int64_t bytes) UOPD_EXCLUDES(mu_);

 private:
  GpuExecutable(std::shared_ptr<Device> device, std::shared_ptr<GpuContext> context,
                const KernelCode& kernel_code)
      : Executable(std::move(device), kernel_code.entry, kernel_code.args),
        context_(std::move(context)) {}

  const std::shared_ptr<GpuContext> context_;
  ModuleHandle module_ = nullptr;      // constant after Load
  FunctionHandle function_ = nullptr;  // constant after Load
  Mutex mu_;
  int64_t shared_bytes_ UOPD_GUARDED_BY(mu_) = int64_t{48} << 10;  // allowed without asking
};

// The arguments of one launch, as the driver takes them: as one block of bytes, or as a list of
// pointers to each of them if there are maps. CUDA places an aligned parameter by its address in
// constant memory, which does not begin at a multiple of 64 bytes. So only the driver knows where
// in a block a map has to be. Not copyable: the lists point into the object.
class LaunchArguments {
 public:
  LaunchArguments(std::span<const GpuPointer> buffers, std::span<const int64_t> vars,
                  GpuPointer stop, std::span<const GpuTensorMap> maps);
  LaunchArguments(const LaunchArguments&) = delete;
  LaunchArguments& operator=(const LaunchArguments&) = delete;
  void** list() { return list_.empty() ? nullptr : list_.data(); }
  void** extra() { return list_.empty() ? extra_ : nullptr; }

 private:
  std::vector<uint64_t> values_;
  std::vector<GpuTensorMap> maps_;
  std::vector<void*> list_;
  size_t bytes_;
  void* extra_[5];
};

}  // namespace uopd::devices::gpu
