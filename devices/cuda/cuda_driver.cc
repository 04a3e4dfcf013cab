// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_driver.h"

namespace uopd::devices::cuda {
namespace {

CuResult EncodeTensorMap(const CudaApi& cuda, CuTensorMap* out, CuPointer address,
                         const TensorMap& map) {
  const int type = map.element_bytes == 1   ? kMapBytes
                   : map.element_bytes == 2 ? kMapHalves
                                            : kMapWords;
  const int swizzle = map.span == 32   ? kMapSwizzle32
                      : map.span == 64 ? kMapSwizzle64
                                       : kMapSwizzle128;
  const std::vector<unsigned long long> dims(map.dims.begin(), map.dims.end()),
      strides(map.strides.begin(), map.strides.end());
  const std::vector<unsigned> box(map.box.begin(), map.box.end()), steps(map.rank(), 1);
  return cuda.cuTensorMapEncodeTiled(out, type, static_cast<unsigned>(map.rank()),
                                     reinterpret_cast<void*>(address), dims.data(), strides.data(),
                                     box.data(), steps.data(), kMapNoInterleave, swizzle,
                                     kMapPromote128, kMapFillZeros);
}

// CUDA's functions have the signatures of the shared code's table.
gpu::GpuApi TableOf(const CudaApi& cuda) {
  gpu::GpuApi out;
  out.name_of = [cuda](CuResult result) -> std::string {
    const char* name = nullptr;
    return cuda.cuGetErrorName(result, &name) == kSuccess && name != nullptr ? name : "";
  };
#define UOPD_BIND(call, function) out.call = {#function, cuda.function}
  UOPD_BIND(DeviceGet, cuDeviceGet);
  UOPD_BIND(RetainContext, cuDevicePrimaryCtxRetain);
  UOPD_BIND(ReleaseContext, cuDevicePrimaryCtxRelease_v2);
  UOPD_BIND(ResetContext, cuDevicePrimaryCtxReset_v2);
  UOPD_BIND(SetCurrent, cuCtxSetCurrent);
  UOPD_BIND(MemAlloc, cuMemAlloc_v2);
  UOPD_BIND(MemFree, cuMemFree_v2);
  UOPD_BIND(HostRegister, cuMemHostRegister_v2);
  UOPD_BIND(HostUnregister, cuMemHostUnregister);
  UOPD_BIND(HostPointer, cuMemHostGetDevicePointer_v2);
  UOPD_BIND(CopyIn, cuMemcpyHtoDAsync_v2);
  UOPD_BIND(CopyOut, cuMemcpyDtoHAsync_v2);
  UOPD_BIND(Copy, cuMemcpyAsync);
  UOPD_BIND(CanAccessPeer, cuDeviceCanAccessPeer);
  UOPD_BIND(EnablePeer, cuCtxEnablePeerAccess);
  UOPD_BIND(CopyPeer, cuMemcpyPeerAsync);
  UOPD_BIND(Fill, cuMemsetD8Async);
  UOPD_BIND(StreamCreate, cuStreamCreate);
  UOPD_BIND(StreamDestroy, cuStreamDestroy_v2);
  UOPD_BIND(StreamQuery, cuStreamQuery);
  UOPD_BIND(StreamSynchronize, cuStreamSynchronize);
  UOPD_BIND(StreamWaitEvent, cuStreamWaitEvent);
  UOPD_BIND(EventCreate, cuEventCreate);
  UOPD_BIND(EventDestroy, cuEventDestroy_v2);
  UOPD_BIND(EventRecord, cuEventRecord);
  UOPD_BIND(EventQuery, cuEventQuery);
  UOPD_BIND(EventElapsed, cuEventElapsedTime);
  UOPD_BIND(ModuleLoad, cuModuleLoadData);
  UOPD_BIND(ModuleUnload, cuModuleUnload);
  UOPD_BIND(ModuleFunction, cuModuleGetFunction);
  UOPD_BIND(FunctionGet, cuFuncGetAttribute);
  UOPD_BIND(FunctionSet, cuFuncSetAttribute);
  UOPD_BIND(Launch, cuLaunchKernel);
  UOPD_BIND(GraphCreate, cuGraphCreate);
  UOPD_BIND(GraphDestroy, cuGraphDestroy);
  UOPD_BIND(GraphAddKernel, cuGraphAddKernelNode_v2);
  UOPD_BIND(GraphInstantiate, cuGraphInstantiateWithFlags);
  UOPD_BIND(GraphSetKernel, cuGraphExecKernelNodeSetParams_v2);
  UOPD_BIND(GraphLaunch, cuGraphLaunch);
  UOPD_BIND(GraphExecDestroy, cuGraphExecDestroy);
#undef UOPD_BIND
  if (cuda.cuTensorMapEncodeTiled != nullptr) {
    out.EncodeTensorMap = {"cuTensorMapEncodeTiled",
                           [cuda](CuTensorMap* map, CuPointer address, const TensorMap* of) {
                             return EncodeTensorMap(cuda, map, address, *of);
                           }};
  }
  return out;
}

}  // namespace

CudaDriver::CudaDriver(const CudaApi& cuda) : GpuDriver(TableOf(cuda)), cuda_(cuda) {}

absl::StatusOr<std::unique_ptr<CudaDriver>> CudaDriver::Create(const CudaApi& cuda) {
  std::unique_ptr<CudaDriver> driver(new CudaDriver(cuda));
  int devices = 0;
  UOPD_TRY(driver->Check(cuda.cuInit(0), "cuInit"));
  UOPD_TRY(driver->Check(cuda.cuDriverGetVersion(&driver->version_), "cuDriverGetVersion"));
  UOPD_TRY(driver->Check(cuda.cuDeviceGetCount(&devices), "cuDeviceGetCount"));
  UOPD_TRY(driver->SetDeviceCount(devices));
  return driver;
}

absl::StatusOr<CudaDriver*> CudaDriver::Process() {
  static Mutex mu;
  static CudaDriver* process = nullptr;  // guarded by mu; never destroyed
  MutexLock lock(mu);
  if (process == nullptr) {
    UOPD_ASSIGN(const CudaApi cuda, LoadCuda());
    UOPD_ASSIGN(auto made, Create(cuda));
    process = made.release();
  }
  return process;
}

}  // namespace uopd::devices::cuda
