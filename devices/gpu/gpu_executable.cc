// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_executable.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace uopd::devices::gpu {

absl::StatusOr<std::shared_ptr<GpuExecutable>> GpuExecutable::Load(
    std::shared_ptr<Device> device, std::shared_ptr<GpuContext> context, const std::string& image,
    const KernelCode& kernel_code) {
  if (!context->Enter()) return context->status();
  const std::string what = absl::StrCat("loading kernel ", kernel_code.entry);
  const auto fails = [&](absl::Status status) {
    // A code like INVALID_IMAGE says that our code is wrong.
    return WithFrame(std::move(status), what);
  };
  // The driver reads as far as the image says. So it must at least be one.
  if (!absl::StartsWith(image,
                        "\x7f"
                        "ELF")) {
    return fails(absl::InternalError(absl::StrCat("The object is no ", context->api().image_name,
                                                  ": it does not begin as an ELF file")));
  }
  std::shared_ptr<GpuExecutable> out(new GpuExecutable(std::move(device), context, kernel_code));
  const GpuApi& api = context->api();
  UOPD_TRY(fails(context->Check(api.ModuleLoad(&out->module_, image.data()))));
  UOPD_TRY(fails(context->Check(
      api.ModuleFunction(&out->function_, out->module_, kernel_code.entry.c_str()))));
  // The question also makes the driver load the code now. It might otherwise do so at the first
  // launch, and wait there for what runs.
  int static_bytes = 0;
  UOPD_TRY(
      fails(context->Check(api.FunctionGet(&static_bytes, kFunctionStaticShared, out->function_))));
  return out;
}

GpuExecutable::~GpuExecutable() {
  if (module_ == nullptr || !context_->Enter()) return;
  context_->Check(context_->api().ModuleUnload(module_)).IgnoreError();
}

absl::Status GpuExecutable::AllowShared(int64_t bytes) {
  if (context_->api().static_shared) return absl::OkStatus();
  MutexLock lock(mu_);
  if (bytes <= shared_bytes_) return absl::OkStatus();
  UOPD_TRY(
      WithFrame(context_->Check(context_->api().FunctionSet(function_, kFunctionMaxDynamicShared,
                                                            static_cast<int>(bytes))),
                absl::StrCat("giving kernel ", entry(), " shared memory of ", bytes, " bytes")));
  shared_bytes_ = bytes;
  return absl::OkStatus();
}

LaunchArguments::LaunchArguments(std::span<const GpuPointer> buffers, std::span<const int64_t> vars,
                                 GpuPointer stop, std::span<const GpuTensorMap> maps)
    : maps_(maps.begin(), maps.end()) {
  values_.reserve(buffers.size() + vars.size() + 1);
  values_.assign(buffers.begin(), buffers.end());
  for (const int64_t v : vars) values_.push_back(static_cast<uint64_t>(v));
  values_.push_back(stop);
  if (!maps_.empty()) {
    for (uint64_t& value : values_) list_.push_back(&value);
    for (GpuTensorMap& map : maps_) list_.push_back(&map);
  }
  bytes_ = values_.size() * sizeof(uint64_t);
  extra_[0] = kLaunchBuffer;
  extra_[1] = values_.data();
  extra_[2] = kLaunchBufferBytes;
  extra_[3] = &bytes_;
  extra_[4] = kLaunchEnd;
}

}  // namespace uopd::devices::gpu
