// SPDX-License-Identifier: MIT
#include "devices/gpu/compile_only_device.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/api/host/host_stream.h"

namespace uopd::devices::gpu {
namespace {

absl::Status Absent(const Device& device) {
  return absl::FailedPreconditionError(
      absl::StrCat(device.info().name, " is not in this machine: kernels for ",
                   device.target().arch, " are only compiled (device.compile_only)"));
}

class AbsentExecutable final : public HostExecutable {
 public:
  using HostExecutable::HostExecutable;
  absl::Status Run(const LaunchShape&, const Arguments&, const StopFlag&) override {
    return Absent(device());
  }
};

}  // namespace

std::shared_ptr<CompileOnlyDevice> CompileOnlyDevice::Open(
    DeviceInfo info, Target target, std::shared_ptr<const Compiler> compiler) {
  info.compiles_only = info.runs_inline = true;
  return std::shared_ptr<CompileOnlyDevice>(
      new CompileOnlyDevice(std::move(info), std::move(target), std::move(compiler)));
}

CompileOnlyDevice::CompileOnlyDevice(DeviceInfo info, Target target,
                                     std::shared_ptr<const Compiler> compiler)
    : Device(std::move(info), std::move(target)), compiler_(std::move(compiler)) {}

absl::StatusOr<std::shared_ptr<Buffer>> CompileOnlyDevice::Allocate(size_t, MemoryKind) {
  return Absent(*this);
}

absl::StatusOr<std::shared_ptr<Executable>> CompileOnlyDevice::Load(const KernelCode& kernel_code) {
  if (kernel_code.entry.empty()) return absl::InternalError("The code names no entry");
  return std::make_shared<AbsentExecutable>(shared_from_this(), kernel_code.entry,
                                            kernel_code.args);
}

absl::StatusOr<std::unique_ptr<Stream>> CompileOnlyDevice::NewStream() {
  return std::make_unique<HostStream>(shared_from_this(), std::nullopt);
}

}  // namespace uopd::devices::gpu
