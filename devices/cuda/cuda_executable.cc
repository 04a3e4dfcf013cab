// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_executable.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace uopd::devices::cuda {

absl::StatusOr<std::shared_ptr<CudaExecutable>> CudaExecutable::Load(
    std::shared_ptr<Device> device, std::shared_ptr<CudaContext> context, const std::string& image,
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
    return fails(absl::InternalError("The object is no cubin: it does not begin as an ELF file."));
  }
  std::shared_ptr<CudaExecutable> out(new CudaExecutable(std::move(device), context, kernel_code));
  const CudaApi& api = context->api();
  UOPD_TRY(
      fails(context->Check(api.cuModuleLoadData(&out->module_, image.data()), "cuModuleLoadData")));
  UOPD_TRY(fails(context->Check(
      api.cuModuleGetFunction(&out->function_, out->module_, kernel_code.entry.c_str()),
      "cuModuleGetFunction")));
  // The question also makes the driver load the code now. It might otherwise do so at the first
  // launch, and wait there for what runs.
  int static_bytes = 0;
  UOPD_TRY(fails(
      context->Check(api.cuFuncGetAttribute(&static_bytes, kFunctionStaticShared, out->function_),
                     "cuFuncGetAttribute")));
  return out;
}

CudaExecutable::~CudaExecutable() {
  if (module_ == nullptr || !context_->Enter()) return;
  context_->Check(context_->api().cuModuleUnload(module_), "cuModuleUnload").IgnoreError();
}

absl::Status CudaExecutable::AllowShared(int64_t bytes) {
  MutexLock lock(mu_);
  if (bytes <= shared_bytes_) return absl::OkStatus();
  UOPD_TRY(
      WithFrame(context_->Check(context_->api().cuFuncSetAttribute(
                                    function_, kFunctionMaxDynamicShared, static_cast<int>(bytes)),
                                "cuFuncSetAttribute"),
                absl::StrCat("giving kernel ", entry(), " shared memory of ", bytes, " bytes")));
  shared_bytes_ = bytes;
  return absl::OkStatus();
}

LaunchArguments::LaunchArguments(std::vector<CuPointer> buffers, std::span<const int64_t> vars,
                                 CuPointer stop) {
  values_.reserve(buffers.size() + vars.size() + 1);
  values_.assign(buffers.begin(), buffers.end());
  for (const int64_t v : vars) values_.push_back(static_cast<uint64_t>(v));
  values_.push_back(stop);
  bytes_ = values_.size() * sizeof(uint64_t);
  extra_[0] = kLaunchBuffer;
  extra_[1] = values_.data();
  extra_[2] = kLaunchBufferBytes;
  extra_[3] = &bytes_;
  extra_[4] = kLaunchEnd;
}

}  // namespace uopd::devices::cuda
