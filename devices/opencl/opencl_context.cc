// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_context.h"

#include <utility>

#include "devices/opencl/opencl_error.h"

namespace uopd::devices::opencl {
namespace {

// `get` is clGetPlatformInfo or clGetDeviceInfo with its first two arguments.
template <class Get>
std::string ReadText(const Get& get) {
  size_t bytes = 0;
  if (get(0, nullptr, &bytes) != kClSuccess || bytes == 0) return "";
  std::string out(bytes, '\0');
  if (get(bytes, out.data(), nullptr) != kClSuccess) return "";
  out.resize(out.find('\0') == std::string::npos ? bytes : out.find('\0'));
  return out;
}

}  // namespace

absl::StatusOr<std::vector<DeviceHandle>> ListDevices(const OpenClApi& api) {
  std::vector<DeviceHandle> out;
  ClUint count = 0;
  ClInt code = api.clGetPlatformIDs(0, nullptr, &count);
  if (code == kClPlatformNotFound || (code == kClSuccess && count == 0)) return out;
  UOPD_TRY(StatusOf("clGetPlatformIDs", code));
  std::vector<ClPlatform*> platforms(count);
  UOPD_TRY(StatusOf("clGetPlatformIDs", api.clGetPlatformIDs(count, platforms.data(), nullptr)));
  for (ClPlatform* platform : platforms) {
    // A platform that fails takes only its own devices away.
    if (api.clGetDeviceIDs(platform, kClDeviceTypeAll, 0, nullptr, &count) != kClSuccess) continue;
    std::vector<ClDevice*> devices(count);
    code = api.clGetDeviceIDs(platform, kClDeviceTypeAll, count, devices.data(), nullptr);
    if (code != kClSuccess) continue;
    for (ClDevice* device : devices) out.push_back({platform, device});
  }
  return out;
}

absl::StatusOr<std::shared_ptr<OpenClContext>> OpenClContext::Open(const OpenClApi& api,
                                                                   DeviceHandle handle) {
  const intptr_t properties[] = {kClContextPlatform, reinterpret_cast<intptr_t>(handle.platform),
                                 0};
  ClInt code = kClSuccess;
  ClContext* context = api.clCreateContext(properties, 1, &handle.device, nullptr, nullptr, &code);
  UOPD_TRY(StatusOf("clCreateContext", code));
  return std::shared_ptr<OpenClContext>(new OpenClContext(api, handle, context));
}

OpenClContext::~OpenClContext() { api_.clReleaseContext(context_); }

std::string OpenClContext::PlatformText(ClUint fact) const {
  return ReadText([&](size_t bytes, void* out, size_t* needed) {
    return api_.clGetPlatformInfo(handle_.platform, fact, bytes, out, needed);
  });
}

std::string OpenClContext::Text(ClUint fact) const {
  return ReadText([&](size_t bytes, void* out, size_t* needed) {
    return api_.clGetDeviceInfo(device(), fact, bytes, out, needed);
  });
}

uint64_t OpenClContext::Number(ClUint fact) const {
  uint64_t out = 0;  // little-endian, as all hosts with OpenCL: 32 bits fill the lower half
  if (api_.clGetDeviceInfo(device(), fact, sizeof out, &out, nullptr) != kClSuccess) return 0;
  return out;
}

std::vector<size_t> OpenClContext::Sizes(ClUint fact, size_t count) const {
  std::vector<size_t> out(count);
  const size_t bytes = count * sizeof(size_t);
  if (api_.clGetDeviceInfo(device(), fact, bytes, out.data(), nullptr) != kClSuccess) {
    out.assign(count, 0);
  }
  return out;
}

absl::Status OpenClContext::Check(const char* call, ClInt code) {
  absl::Status status = StatusOf(call, code);
  if (code == kClDeviceNotAvailable) {
    MutexLock lock(mu_);
    lost_ = status;
  }
  return status;
}

absl::Status OpenClContext::status() const {
  {
    MutexLock lock(mu_);
    if (lost_.ok()) return lost_;
  }
  const bool back = Number(kClDeviceAvailable) != 0;
  MutexLock lock(mu_);
  if (back) lost_ = absl::OkStatus();
  return lost_;
}

absl::StatusOr<ClQueue*> OpenClContext::NewQueue() {
  ClInt code = kClSuccess;
  ClQueue* queue = api_.clCreateCommandQueue(context_, device(), kClQueueProfilingEnable, &code);
  UOPD_TRY(Check("clCreateCommandQueue", code));
  return queue;
}

}  // namespace uopd::devices::opencl
