// SPDX-License-Identifier: MIT
// The CUDA driver of this process: its functions, its devices, and which of their contexts are lost.
//
// One for the process (Process), and one for each fake driver of a test. It is never destroyed while
// a device is open: the one of the process lives for ever, and a test owns its own. Thread-safe.
//
// Errors: UNAVAILABLE if there is no library, no device, or a library that does not fit. Statuses
// name the failing call and the driver's name of the code.
#pragma once
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "devices/cuda/cuda_symbols.h"

namespace uopd::devices::cuda {

class CudaContext;

class CudaDriver {
 public:
  // Calls cuInit and counts the devices.
  static absl::StatusOr<std::unique_ptr<CudaDriver>> Create(const CudaApi& api);
  // The driver behind libcuda.so.1. After a failure the next call tries again.
  static absl::StatusOr<CudaDriver*> Process();

  const CudaApi& api() const { return api_; }
  int version() const { return version_; }  // 12040 is 12.4
  int device_count() const { return device_count_; }

  // OK, or a status with the call and the code: RESOURCE_EXHAUSTED for no memory, UNAVAILABLE for
  // what ends a context or finds no device, UNIMPLEMENTED, otherwise INTERNAL.
  absl::Status Check(CuResult result, const char* call) const;
  // "CUDA_ERROR_ILLEGAL_ADDRESS"
  std::string NameOf(CuResult result) const;

  // The primary context of device `index`. Two devices that are open at the same time share it. If
  // the last one was lost, it is reset first. UNAVAILABLE: a kernel still runs in the lost context.
  absl::StatusOr<std::shared_ptr<CudaContext>> OpenContext(int index) UOPD_EXCLUDES(mu_);

 private:
  explicit CudaDriver(const CudaApi& api) : api_(api) {}

  const CudaApi api_;
  int version_ = 0;       // constant after Create
  int device_count_ = 0;  // constant after Create
  Mutex mu_;
  absl::flat_hash_map<int, std::weak_ptr<CudaContext>> contexts_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::cuda
