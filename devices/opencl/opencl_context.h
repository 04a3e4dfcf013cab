// SPDX-License-Identifier: MIT
// One OpenCL device with its context: what memory, compiler, executables and streams of a device
// share.
//
// Owned by shared_ptr. Its users keep it, so it closes when the last of them goes. Thread-safe. A
// call that the driver answers with CL_DEVICE_NOT_AVAILABLE makes the device lost; it is back as
// soon as the driver says that the device is available.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "devices/opencl/opencl_symbols.h"

namespace uopd::devices::opencl {

// A device of the machine. Handles of platforms and devices are valid as long as the process.
struct DeviceHandle {
  ClPlatform* platform = nullptr;
  ClDevice* device = nullptr;
};

// The devices of all platforms, in the order in which the ICD loader names the platforms and each
// platform its devices. A platform without devices is left out. No platform: an empty list.
absl::StatusOr<std::vector<DeviceHandle>> ListDevices(const OpenClApi& api);

class OpenClContext {
 public:
  static absl::StatusOr<std::shared_ptr<OpenClContext>> Open(const OpenClApi& api,
                                                             DeviceHandle handle);
  ~OpenClContext();
  OpenClContext(const OpenClContext&) = delete;
  OpenClContext& operator=(const OpenClContext&) = delete;

  const OpenClApi& api() const { return api_; }
  ClDevice* device() const { return handle_.device; }
  ClContext* context() const { return context_; }

  // Facts. A fact that the driver does not know is "", or 0.
  std::string PlatformText(ClUint fact) const;
  std::string Text(ClUint fact) const;
  uint64_t Number(ClUint fact) const;  // an integer of 32 or 64 bits
  std::vector<size_t> Sizes(ClUint fact, size_t count) const;

  // StatusOf(call, code). Notices that the device is lost.
  absl::Status Check(const char* call, ClInt code) UOPD_EXCLUDES(mu_);
  // OK, or UNAVAILABLE while the device is lost.
  absl::Status status() const UOPD_EXCLUDES(mu_);
  // A queue that executes in order and measures times.
  absl::StatusOr<ClQueue*> NewQueue();

 private:
  OpenClContext(const OpenClApi& api, DeviceHandle handle, ClContext* context)
      : api_(api), handle_(handle), context_(context) {}

  const OpenClApi& api_;
  const DeviceHandle handle_;
  ClContext* const context_;
  mutable Mutex mu_;
  mutable absl::Status lost_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::devices::opencl
