// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_device.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devices/opencl/opencl_executable.h"
#include "devices/opencl/opencl_program.h"
#include "devices/opencl/opencl_stream.h"
#include "devices/opencl/opencl_target.h"

namespace uopd::devices::opencl {

absl::StatusOr<std::string> OpenClCompiler::Compile(std::string_view source) const {
  UOPD_TRY(context_->status());
  UOPD_ASSIGN(const OpenClProgram program, OpenClProgram::FromSource(context_, source));
  return program.Binary();
}

namespace {

DeviceInfo MakeInfo(const OpenClOptions& options, const OpenClContext& context) {
  const OpenClMemoryOptions memory = OpenClMemory::Completed(context, options.memory);
  DeviceInfo info;
  info.name = absl::StrCat("CL:", options.index);
  if (!IsHostProcessor(context)) info.processor = info.name;
  info.max_buffer_bytes = static_cast<int64_t>(OpenClMemory::MostBytes(context, memory));
  info.total_bytes = static_cast<int64_t>(memory.limit_bytes);
  return info;
}

}  // namespace

int CountDevices() {
  const auto api = SharedOpenCl();
  if (!api.ok()) return 0;
  const auto devices = ListDevices(**api);
  return devices.ok() ? static_cast<int>(devices->size()) : 0;
}

absl::StatusOr<std::shared_ptr<OpenClDevice>> OpenClDevice::Open(const OpenClOptions& options) {
  const OpenClApi* api = options.api;
  if (api == nullptr) {
    UOPD_ASSIGN(api, SharedOpenCl());
  }
  UOPD_ASSIGN(const std::vector<DeviceHandle> devices, ListDevices(*api));
  const auto index = static_cast<size_t>(options.index);
  if (index >= devices.size()) {
    return absl::UnavailableError(absl::StrCat("There is no OpenCL device ", options.index,
                                               "; the drivers offer ", devices.size()));
  }
  UOPD_ASSIGN(auto context, OpenClContext::Open(*api, devices[index]));
  UOPD_TRY(CheckUsable(*context));
  DeviceInfo info = MakeInfo(options, *context);
  return std::shared_ptr<OpenClDevice>(
      new OpenClDevice(std::move(info), std::move(context), options));
}

OpenClDevice::OpenClDevice(DeviceInfo info, std::shared_ptr<OpenClContext> context,
                           const OpenClOptions& options)
    : Device(std::move(info), Describe(*context)),
      context_(std::move(context)),
      compiler_(context_),
      delay_(options.delay),
      memory_(context_, options.memory) {}

absl::StatusOr<std::shared_ptr<Buffer>> OpenClDevice::Allocate(size_t bytes, MemoryKind kind) {
  UOPD_TRY(status());
  return memory_.Allocate(shared_from_this(), bytes, kind);
}

absl::StatusOr<std::shared_ptr<Executable>> OpenClDevice::Load(const KernelCode& kernel_code) {
  UOPD_TRY(status());
  const auto program = [&]() -> absl::StatusOr<OpenClProgram> {
    switch (kernel_code.format) {
      case CodeFormat::kObject:
        return OpenClProgram::FromBinary(context_, kernel_code.bytes);
      case CodeFormat::kOpenClC:
        return OpenClProgram::FromSource(context_, kernel_code.bytes);
      default:
        break;
    }
    return absl::UnimplementedError(absl::StrCat(info().name, " does not take code of format ",
                                                 static_cast<int>(kernel_code.format)));
  };
  UOPD_ASSIGN(OpenClProgram built, program());
  return OpenClExecutable::Make(shared_from_this(), context_, std::move(built), kernel_code);
}

absl::StatusOr<std::unique_ptr<Stream>> OpenClDevice::NewStream() {
  UOPD_TRY(status());
  UOPD_ASSIGN(auto work, OpenClWork::Make(context_));
  return std::make_unique<OpenClStream>(shared_from_this(), std::move(work), delay_);
}

}  // namespace uopd::devices::opencl
