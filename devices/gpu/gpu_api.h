// SPDX-License-Identifier: MIT
// The driver of a GPU as a table of functions: what the shared code needs of CUDA or HIP. A driver
// fills it with the functions of its library, or with adapters where the library has other
// signatures.
//
// Plain data, constant once it is filled; the functions are thread-safe as the driver's are.
#pragma once
#include <functional>
#include <string>
#include <utility>

#include "core/base/target/tensor_map.h"
#include "devices/gpu/gpu_types.h"

namespace uopd::devices::gpu {

// What a call returned, and its name in the driver's library for messages.
struct GpuOutcome {
  GpuResult result = kSuccess;
  const char* call = "";
};

template <class... Args>
class GpuCall {
 public:
  GpuCall() = default;
  // A null function: the library has no such call.
  GpuCall(const char* name, std::function<GpuResult(Args...)> function)
      : name_(name), function_(std::move(function)) {}

  explicit operator bool() const { return function_ != nullptr; }
  GpuOutcome operator()(Args... args) const { return {function_(args...), name_}; }

 private:
  const char* name_ = "";
  std::function<GpuResult(Args...)> function_;
};

struct GpuApi {
  std::string library = "CUDA";      // in messages: "the CUDA driver"
  std::string prefix = "CUDA";       // of the names of devices: "CUDA:0"
  std::string image_name = "cubin";  // what ModuleLoad takes
  // Kernels declare their shared memory themselves. Launches add none.
  bool static_shared = false;
  // The driver's name of a code; "" if it has none.
  std::function<std::string(GpuResult)> name_of;

#define UOPD_GPU_CALL(name, ...) GpuCall<__VA_ARGS__> name;
#include "devices/gpu/gpu_calls.def"
#undef UOPD_GPU_CALL

  bool has_peers() const { return CanAccessPeer && EnablePeer && CopyPeer; }
  bool has_graphs() const {
    return GraphCreate && GraphDestroy && GraphAddKernel && GraphInstantiate && GraphSetKernel &&
           GraphLaunch && GraphExecDestroy;
  }
};

}  // namespace uopd::devices::gpu
