// SPDX-License-Identifier: MIT
#include "devices/hip/hip_driver.h"

#include <algorithm>

namespace uopd::devices::hip {
namespace {

using gpu::ContextHandle;
using gpu::GpuPointer;
using gpu::GpuResult;
using gpu::KernelNode;

// The list of a launch's arguments with HIP's end.
struct HipExtra {
  explicit HipExtra(void** extra) {
    std::copy_n(extra, 4, keys);
    keys[4] = kHipLaunchEnd;
  }
  void* keys[5];
};

HipKernelNode NodeOf(const KernelNode& node, HipExtra& extra) {
  HipKernelNode out;
  std::copy_n(node.grid, 3, out.grid);
  std::copy_n(node.block, 3, out.block);
  out.shared_bytes = node.shared_bytes;
  out.function = node.function;
  out.extra = extra.keys;
  return out;
}

// A context is the number of its device here.
ContextHandle ContextOf(int device) {
  return reinterpret_cast<ContextHandle>(intptr_t{device} + 1);
}
int DeviceOf(ContextHandle context) {
  return static_cast<int>(reinterpret_cast<intptr_t>(context) - 1);
}

void BindPeers(const HipApi& hip, gpu::GpuApi& out) {
  if (hip.hipDeviceCanAccessPeer == nullptr || hip.hipDeviceEnablePeerAccess == nullptr ||
      hip.hipMemcpyPeerAsync == nullptr) {
    return;
  }
  out.CanAccessPeer = {"hipDeviceCanAccessPeer", hip.hipDeviceCanAccessPeer};
  out.EnablePeer = {"hipDeviceEnablePeerAccess", [hip](ContextHandle context, unsigned flags) {
                      return hip.hipDeviceEnablePeerAccess(DeviceOf(context), flags);
                    }};
  out.CopyPeer = {"hipMemcpyPeerAsync",
                  [hip](GpuPointer to, ContextHandle to_context, GpuPointer from,
                        ContextHandle from_context, size_t bytes, gpu::StreamHandle stream) {
                    return hip.hipMemcpyPeerAsync(to, DeviceOf(to_context), from,
                                                  DeviceOf(from_context), bytes, stream);
                  }};
}

// What HIP has with other signatures than CUDA.
void BindAdapters(const HipApi& hip, gpu::GpuApi& out) {
  out.RetainContext = {"hipSetDevice", [hip](ContextHandle* context, int device) {
                         *context = ContextOf(device);
                         return hip.hipSetDevice(device);
                       }};
  out.ReleaseContext = {"hipSetDevice", [](int) { return gpu::kSuccess; }};
  out.ResetContext = {"hipDeviceReset", [hip](int device) {
                        const GpuResult set = hip.hipSetDevice(device);
                        return set == gpu::kSuccess ? hip.hipDeviceReset() : set;
                      }};
  out.SetCurrent = {"hipSetDevice",
                    [hip](ContextHandle context) { return hip.hipSetDevice(DeviceOf(context)); }};
  out.Copy = {"hipMemcpyAsync",
              [hip](GpuPointer to, GpuPointer from, size_t bytes, gpu::StreamHandle stream) {
                return hip.hipMemcpyAsync(to, from, bytes, kCopyDefault, stream);
              }};
  out.Launch = {"hipModuleLaunchKernel",
                [hip](gpu::FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
                      unsigned bx, unsigned by, unsigned bz, unsigned shared,
                      gpu::StreamHandle stream, void** arguments, void** extra) {
                  HipExtra own(extra);
                  return hip.hipModuleLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream,
                                                   arguments, own.keys);
                }};
}

void BindGraphs(const HipApi& hip, gpu::GpuApi& out) {
  out.GraphCreate = {"hipGraphCreate", hip.hipGraphCreate};
  out.GraphDestroy = {"hipGraphDestroy", hip.hipGraphDestroy};
  out.GraphLaunch = {"hipGraphLaunch", hip.hipGraphLaunch};
  out.GraphExecDestroy = {"hipGraphExecDestroy", hip.hipGraphExecDestroy};
  if (hip.hipGraphAddKernelNode == nullptr || hip.hipGraphInstantiate == nullptr ||
      hip.hipGraphExecKernelNodeSetParams == nullptr) {
    return;
  }
  out.GraphAddKernel = {"hipGraphAddKernelNode",
                        [hip](gpu::NodeHandle* made, gpu::GraphHandle graph,
                              const gpu::NodeHandle* before, size_t n, const KernelNode* node) {
                          HipExtra extra(node->extra);
                          const HipKernelNode own = NodeOf(*node, extra);
                          return hip.hipGraphAddKernelNode(made, graph, before, n, &own);
                        }};
  out.GraphInstantiate = {"hipGraphInstantiate", [hip](gpu::GraphExecHandle* exec,
                                                       gpu::GraphHandle graph, unsigned long long) {
                            return hip.hipGraphInstantiate(exec, graph, nullptr, nullptr, 0);
                          }};
  out.GraphSetKernel = {
      "hipGraphExecKernelNodeSetParams",
      [hip](gpu::GraphExecHandle exec, gpu::NodeHandle at, const KernelNode* node) {
        HipExtra extra(node->extra);
        const HipKernelNode own = NodeOf(*node, extra);
        return hip.hipGraphExecKernelNodeSetParams(exec, at, &own);
      }};
}

gpu::GpuApi HipTable(const HipApi& hip) {
  gpu::GpuApi out;
  out.library = "HIP";
  out.prefix = "AMD";
  out.image_name = "code object";
  out.static_shared = true;
  out.name_of = [hip](GpuResult result) -> std::string {
    const char* name = hip.hipGetErrorName(result);
    return name != nullptr ? name : "";
  };
#define UOPD_BIND(call, function) out.call = {#function, hip.function}
  UOPD_BIND(DeviceGet, hipDeviceGet);
  UOPD_BIND(MemAlloc, hipMalloc);
  UOPD_BIND(MemFree, hipFree);
  UOPD_BIND(HostRegister, hipHostRegister);
  UOPD_BIND(HostUnregister, hipHostUnregister);
  UOPD_BIND(HostPointer, hipHostGetDevicePointer);
  UOPD_BIND(CopyIn, hipMemcpyHtoDAsync);
  UOPD_BIND(CopyOut, hipMemcpyDtoHAsync);
  UOPD_BIND(Fill, hipMemsetD8Async);
  UOPD_BIND(StreamCreate, hipStreamCreateWithFlags);
  UOPD_BIND(StreamDestroy, hipStreamDestroy);
  UOPD_BIND(StreamQuery, hipStreamQuery);
  UOPD_BIND(StreamSynchronize, hipStreamSynchronize);
  UOPD_BIND(StreamWaitEvent, hipStreamWaitEvent);
  UOPD_BIND(EventCreate, hipEventCreateWithFlags);
  UOPD_BIND(EventDestroy, hipEventDestroy);
  UOPD_BIND(EventRecord, hipEventRecord);
  UOPD_BIND(EventQuery, hipEventQuery);
  UOPD_BIND(EventElapsed, hipEventElapsedTime);
  UOPD_BIND(ModuleLoad, hipModuleLoadData);
  UOPD_BIND(ModuleUnload, hipModuleUnload);
  UOPD_BIND(ModuleFunction, hipModuleGetFunction);
  UOPD_BIND(FunctionGet, hipFuncGetAttribute);
#undef UOPD_BIND
  BindAdapters(hip, out);
  BindPeers(hip, out);
  BindGraphs(hip, out);
  return out;
}

}  // namespace

HipDriver::HipDriver(const HipApi& hip) : GpuDriver(HipTable(hip)), hip_(hip) {}

absl::StatusOr<std::unique_ptr<HipDriver>> HipDriver::Create(const HipApi& hip) {
  std::unique_ptr<HipDriver> driver(new HipDriver(hip));
  int devices = 0;
  UOPD_TRY(driver->Check(hip.hipInit(0), "hipInit"));
  UOPD_TRY(driver->Check(hip.hipGetDeviceCount(&devices), "hipGetDeviceCount"));
  UOPD_TRY(driver->SetDeviceCount(devices));
  return driver;
}

absl::StatusOr<HipDriver*> HipDriver::Process() {
  static Mutex mu;
  static HipDriver* process = nullptr;  // guarded by mu; never destroyed
  MutexLock lock(mu);
  if (process == nullptr) {
    UOPD_ASSIGN(const HipApi hip, LoadHip());
    UOPD_ASSIGN(auto made, Create(hip));
    process = made.release();
  }
  return process;
}

}  // namespace uopd::devices::hip
