// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_driver.h"

#include "absl/strings/str_cat.h"
#include "devices/gpu/gpu_context.h"

namespace uopd::devices::gpu {

absl::Status GpuDriver::SetDeviceCount(int count) {
  device_count_ = count;
  if (count > 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("The ", api_.library, " driver has no device"));
}

std::string GpuDriver::NameOf(GpuResult result) const {
  if (const std::string name = api_.name_of(result); !name.empty()) return name;
  return absl::StrCat("error ", static_cast<int>(result));
}

absl::Status GpuDriver::Check(GpuResult result, const char* call) const {
  if (result == kSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(call, " fails with ", NameOf(result));
  if (result == kOutOfMemory) return absl::ResourceExhaustedError(message);
  if (result == kNotSupported) return absl::UnimplementedError(message);
  if (GpuContext::IsSticky(result) || result == kNoDevice || result == kInvalidDevice ||
      result == kNotInitialized || result == kStubLibrary || result == kSystemNotReady ||
      result == kSystemDriverMismatch) {
    return absl::UnavailableError(message);
  }
  return absl::InternalError(message);
}

absl::StatusOr<std::shared_ptr<GpuContext>> GpuDriver::OpenContext(int index) {
  if (index >= device_count_) {
    return absl::UnavailableError(absl::StrCat("There is no ", api_.library, " device ", index,
                                               "; the driver has ", device_count_));
  }
  MutexLock lock(mu_);
  std::weak_ptr<GpuContext>& known = contexts_[index];
  if (auto open = known.lock()) {
    if (open->status().ok()) return open;
    // Everything that the lost device still owns vanishes with the reset. Its objects know that
    // they are lost and touch the driver no more.
    UOPD_TRY(open->CheckIdle());
    UOPD_TRY(Check(api_.ResetContext(open->device())));
    known.reset();
  }
  UOPD_ASSIGN(auto made, GpuContext::Retain(*this, index));
  known = made;
  return made;
}

}  // namespace uopd::devices::gpu
