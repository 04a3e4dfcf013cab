// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_driver.h"

#include "absl/strings/str_cat.h"
#include "devices/cuda/cuda_context.h"

namespace uopd::devices::cuda {

absl::StatusOr<std::unique_ptr<CudaDriver>> CudaDriver::Create(const CudaApi& api) {
  std::unique_ptr<CudaDriver> driver(new CudaDriver(api));
  UOPD_TRY(driver->Check(api.cuInit(0), "cuInit"));
  UOPD_TRY(driver->Check(api.cuDriverGetVersion(&driver->version_), "cuDriverGetVersion"));
  UOPD_TRY(driver->Check(api.cuDeviceGetCount(&driver->device_count_), "cuDeviceGetCount"));
  if (driver->device_count_ < 1) return absl::UnavailableError("The CUDA driver has no device.");
  return driver;
}

absl::StatusOr<CudaDriver*> CudaDriver::Process() {
  static Mutex mu;
  static CudaDriver* process = nullptr;  // guarded by mu; never destroyed
  MutexLock lock(mu);
  if (process == nullptr) {
    UOPD_ASSIGN(const CudaApi api, LoadCuda());
    UOPD_ASSIGN(auto made, Create(api));
    process = made.release();
  }
  return process;
}

std::string CudaDriver::NameOf(CuResult result) const {
  const char* name = nullptr;
  if (api_.cuGetErrorName(result, &name) == kSuccess && name != nullptr) return name;
  return absl::StrCat("error ", static_cast<int>(result));
}

absl::Status CudaDriver::Check(CuResult result, const char* call) const {
  if (result == kSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(call, " fails with ", NameOf(result), ".");
  if (result == kOutOfMemory) return absl::ResourceExhaustedError(message);
  if (result == kNotSupported) return absl::UnimplementedError(message);
  if (CudaContext::IsSticky(result) || result == kNoDevice || result == kInvalidDevice ||
      result == kNotInitialized || result == kStubLibrary || result == kSystemNotReady ||
      result == kSystemDriverMismatch) {
    return absl::UnavailableError(message);
  }
  return absl::InternalError(message);
}

absl::StatusOr<std::shared_ptr<CudaContext>> CudaDriver::OpenContext(int index) {
  if (index >= device_count_) {
    return absl::UnavailableError(
        absl::StrCat("There is no CUDA device ", index, "; the driver has ", device_count_, "."));
  }
  MutexLock lock(mu_);
  std::weak_ptr<CudaContext>& known = contexts_[index];
  if (auto open = known.lock()) {
    if (open->status().ok()) return open;
    // Everything that the lost device still owns vanishes with the reset. Its objects know that
    // they are lost and touch the driver no more.
    UOPD_TRY(open->CheckIdle());
    UOPD_TRY(Check(api_.cuDevicePrimaryCtxReset_v2(open->device()), "cuDevicePrimaryCtxReset_v2"));
    known.reset();
  }
  UOPD_ASSIGN(auto made, CudaContext::Retain(*this, index));
  known = made;
  return made;
}

}  // namespace uopd::devices::cuda
