// SPDX-License-Identifier: MIT
// CL: the OpenCL devices of the machine. Kernels are text of OpenCL C, which the driver of the
// device compiles.
//
// CL:n is device n of ListDevices: all platforms, in the order of the ICD loader. Kernel ABI: see
// opencl_executable.h; shared memory is declared in the kernel. Streams work in the background.
#pragma once
#include <chrono>
#include <memory>
#include <utility>

#include "devices/api/compiler.h"
#include "devices/api/device.h"
#include "devices/opencl/opencl_context.h"
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

// Compiler of an OpenCL device: text of OpenCL C to the driver's binary. It keeps the context and
// has no other state. Thread-safe; it uses no queue, so it compiles also while the device works.
//
// The bytes are the driver's own, and it decides whether they are the same every time. PoCL puts
// into a binary what its cache of kernels holds of the program: when the kernel was launched in
// between, that is more code, for this size of blocks. All these binaries compute the same bits.
class OpenClCompiler final : public Compiler {
 public:
  explicit OpenClCompiler(std::shared_ptr<OpenClContext> context) : context_(std::move(context)) {}

  absl::StatusOr<std::string> Compile(std::string_view source) const override;

 private:
  const std::shared_ptr<OpenClContext> context_;
};

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
