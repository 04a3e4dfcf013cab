// SPDX-License-Identifier: MIT
#include "devices/cuda/ptx_compiler.h"

#include "absl/strings/str_cat.h"
#include "devices/gpu/diagnostic.h"

namespace uopd::devices::cuda {

std::string PtxCompiler::Toolchain(const CudaDriver& driver, const std::string& arch) {
  return absl::StrCat("cuda-driver-", driver.version() / 1000, ".", driver.version() % 1000 / 10,
                      ";arch=", arch, ";O4");
}

absl::StatusOr<std::string> PtxCompiler::Compile(std::string_view source) const {
  if (source.empty()) return absl::InternalError("The kernel's source is empty");
  if (!context_->Enter()) return context_->status();
  const CudaApi& api = driver_.cuda();
  char log[4096] = {};
  // Values that fit are passed as the pointer itself.
  int options[] = {kJitErrorLog, kJitErrorLogBytes, kJitOptimization};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log - 1), reinterpret_cast<void*>(4)};
  CuLinkState link = nullptr;
  UOPD_TRY(context_->Check(api.cuLinkCreate_v2(3, options, values, &link), "cuLinkCreate_v2"));
  const auto destroy = [&api](CuLinkState l) { api.cuLinkDestroy(l); };
  const std::unique_ptr<CuLinkObject, decltype(destroy)> owner(link, destroy);
  // The text ends with a zero byte, which counts.
  std::string text(source);
  CuResult result = api.cuLinkAddData_v2(link, kJitInputPtx, text.data(), text.size() + 1,
                                         "kernel.ptx", 0, nullptr, nullptr);
  void* cubin = nullptr;
  size_t size = 0;
  if (result == kSuccess) result = api.cuLinkComplete(link, &cubin, &size);
  if (result != kSuccess) {
    absl::Status status = context_->Check(result, "cuLinkComplete");
    if (context_->lost()) return status;
    if (result == kJitCompilerNotFound) return absl::UnavailableError(status.message());
    return gpu::DoesNotCompile("The CUDA driver",
                               absl::StrCat(std::string(status.message()), " ", log), source);
  }
  return std::string(static_cast<const char*>(cubin), size);  // it belongs to the link
}

}  // namespace uopd::devices::cuda
