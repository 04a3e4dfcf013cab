// SPDX-License-Identifier: MIT
// The driver of GPUs of one kind in this process: its functions, its devices, and which of their
// contexts are lost.
//
// It is never destroyed while a device is open: the one of the process lives for ever, and a test
// owns its own. Thread-safe.
//
// Errors: UNAVAILABLE if there is no library, no device, or a library that does not fit. Statuses
// name the failing call and the driver's name of the code.
#pragma once
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/gpu/gpu_api.h"

namespace uopd::devices::gpu {

class GpuContext;

class GpuDriver {
 public:
  virtual ~GpuDriver() = default;
  GpuDriver(const GpuDriver&) = delete;
  GpuDriver& operator=(const GpuDriver&) = delete;

  const GpuApi& api() const { return api_; }
  int device_count() const { return device_count_; }

  // OK, or a status with the call and the code: RESOURCE_EXHAUSTED for no memory, UNAVAILABLE for
  // what ends a context or finds no device, UNIMPLEMENTED, otherwise INTERNAL.
  absl::Status Check(GpuResult result, const char* call) const;
  absl::Status Check(const GpuOutcome& outcome) const {
    return Check(outcome.result, outcome.call);
  }
  // "CUDA_ERROR_ILLEGAL_ADDRESS"
  std::string NameOf(GpuResult result) const;

  // The primary context of device `index`. Two devices that are open at the same time share it. If
  // the last one was lost, it is reset first. UNAVAILABLE: a kernel still runs in the lost context.
  absl::StatusOr<std::shared_ptr<GpuContext>> OpenContext(int index) UOPD_EXCLUDES(mu_);

 protected:
  explicit GpuDriver(GpuApi api) : api_(std::move(api)) {}
  // Before any other call. UNAVAILABLE: there is no device.
  absl::Status SetDeviceCount(int count);

 private:
  const GpuApi api_;
  int device_count_ = 0;  // constant after SetDeviceCount
  Mutex mu_;
  absl::flat_hash_map<int, std::weak_ptr<GpuContext>> contexts_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::gpu
