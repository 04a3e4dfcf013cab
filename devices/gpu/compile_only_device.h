// SPDX-License-Identifier: MIT
// A device that is not here: kernels for it are compiled, cached and loaded, and nothing runs.
//
// A daemon without a GPU fills a cache for daemons that have one. Programs are prepared as on a
// real device. A buffer cannot be made, so no call gets as far as a launch. Owned by shared_ptr;
// thread-safe.
#pragma once
#include <memory>

#include "devices/api/device.h"

namespace uopd::devices::gpu {

class CompileOnlyDevice final : public Device {
 public:
  // `info` names the device, `target` and `compiler` are those of the chip.
  static std::shared_ptr<CompileOnlyDevice> Open(DeviceInfo info, Target target,
                                                 std::shared_ptr<const Compiler> compiler);

  const Compiler& compiler() const override { return *compiler_; }
  absl::Status status() const override { return absl::OkStatus(); }
  MemoryStats memory() const override { return {}; }
  // FAILED_PRECONDITION, as each launch.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override;
  absl::StatusOr<std::shared_ptr<Executable>> Load(const KernelCode& kernel_code) override;
  absl::StatusOr<std::unique_ptr<Stream>> NewStream() override;

 private:
  CompileOnlyDevice(DeviceInfo info, Target target, std::shared_ptr<const Compiler> compiler);

  const std::shared_ptr<const Compiler> compiler_;
};

}  // namespace uopd::devices::gpu
