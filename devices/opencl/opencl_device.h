// SPDX-License-Identifier: MIT
// CL: the OpenCL devices of the machine. Kernels are text of OpenCL C, which the driver of the
// device compiles.
//
// CL:n is device n of ListDevices: all platforms, in the order of the ICD loader. Kernel ABI: see
// opencl_executable.h; shared memory is declared in the kernel. Streams work in the background.
#pragma once
#include <chrono>
#include <memory>

#include "devices/api/device.h"
#include "devices/opencl/opencl_compiler.h"
#include "devices/opencl/opencl_memory.h"

namespace uopd::devices::opencl {

struct OpenClOptions {
  int index = 0;                   // n of "CL:n"
  const OpenClApi* api = nullptr;  // lives longer than the device; null: SharedOpenCl()
  OpenClMemoryOptions memory;
  std::chrono::microseconds delay{
      0};  // before each step of a stream; finds code that relies on luck
};

// How many devices there are; 0 if the machine has no OpenCL. They may be unusable.
int CountDevices();

class OpenClDevice final : public Device {
 public:
  // UNAVAILABLE: no driver, no such device, or a device that lacks what uopd needs.
  static absl::StatusOr<std::shared_ptr<OpenClDevice>> Open(const OpenClOptions& options);

  const Compiler& compiler() const override { return compiler_; }
  absl::Status status() const override { return context_->status(); }
  MemoryStats memory() const override { return memory_.stats(); }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;

 private:
  OpenClDevice(DeviceInfo info, std::shared_ptr<OpenClContext> context,
               const OpenClOptions& options);

  const std::shared_ptr<OpenClContext> context_;
  const OpenClCompiler compiler_;
  const std::chrono::microseconds delay_;
  OpenClMemory memory_;
};

}  // namespace uopd::devices::opencl
