// SPDX-License-Identifier: MIT
#include "tests/support/hip/fake_hip.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace uopd::tests {

using namespace devices::gpu;
using namespace devices::hip;

namespace {

const devices::cuda::CudaApi& Cuda() {
  static const devices::cuda::CudaApi api = FakeCuda::Api();
  return api;
}

// The list of a launch as CUDA has it. False: it does not end as HIP has it.
bool ToCuda(void** extra, void** out) {
  std::copy_n(extra, 5, out);
  out[4] = kLaunchEnd;
  return extra[4] == kHipLaunchEnd;
}

GpuResult hipSetDevice(int device) {
  if (device < 0 || device >= TheFakeCuda().options.devices) return kInvalidDevice;
  return Cuda().cuCtxSetCurrent(reinterpret_cast<ContextHandle>(intptr_t{device} + 1));
}
GpuResult hipDeviceReset() { return Cuda().cuDevicePrimaryCtxReset_v2(CurrentFakeDevice()); }

const char* hipGetErrorName(GpuResult result) {
  switch (result) {
    case kOutOfMemory:
      return "hipErrorOutOfMemory";
    case kNoDevice:
      return "hipErrorNoDevice";
    case kIllegalAddress:
      return "hipErrorIllegalAddress";
    case kLaunchFailed:
      return "hipErrorLaunchFailure";
    default:
      return "hipErrorUnknown";
  }
}

GpuResult hipDeviceGetAttribute(int* value, HipAttribute attribute, int) {
  switch (static_cast<int>(attribute)) {
    case kMaxThreadsPerBlock:
    case kMaxBlockDimX:
    case kMaxBlockDimX + 1:
    case kMaxBlockDimX + 2:
      *value = 1024;
      return kSuccess;
    case kMaxGridDimX:
      *value = 2147483647;
      return kSuccess;
    case kMaxGridDimX + 1:
    case kMaxGridDimX + 2:
      *value = 65536;
      return kSuccess;
    case kMaxSharedPerBlock:
      *value = 64 << 10;
      return kSuccess;
    case kWarpSize:
      *value = 64;
      return kSuccess;
    case kClockRateKhz:
      *value = 2'100'000;
      return kSuccess;
    case kComputeUnits:
      *value = 304;
      return kSuccess;
    case kL2CacheBytes:
      *value = 4 << 20;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

// The name of the processor lies somewhere behind that of the device.
GpuResult hipGetDeviceProperties(void* properties, int) {
  std::strcpy(static_cast<char*>(properties), "a gfx card");
  std::strcpy(static_cast<char*>(properties) + 1160, "gfx942:sramecc+:xnack-");
  return kSuccess;
}

GpuResult hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return Cuda().cuCtxEnablePeerAccess(reinterpret_cast<ContextHandle>(intptr_t{peer} + 1), flags);
}
GpuResult hipMemcpyPeerAsync(GpuPointer to, int target, GpuPointer from, int source, size_t bytes,
                             StreamHandle stream) {
  return Cuda().cuMemcpyPeerAsync(to, reinterpret_cast<ContextHandle>(intptr_t{target} + 1), from,
                                  reinterpret_cast<ContextHandle>(intptr_t{source} + 1), bytes,
                                  stream);
}
GpuResult hipMemcpyAsync(GpuPointer to, GpuPointer from, size_t bytes, int kind,
                         StreamHandle stream) {
  return kind == kCopyDefault ? Cuda().cuMemcpyAsync(to, from, bytes, stream) : kInvalidValue;
}

GpuResult hipModuleLaunchKernel(FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
                                unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                StreamHandle stream, void** arguments, void** extra) {
  void* list[5];
  if (shared != 0 || !ToCuda(extra, list)) return kInvalidValue;
  return Cuda().cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, list);
}

// A node as CUDA has it. False: it is none of HIP.
bool ToCuda(const HipKernelNode& node, void** list, KernelNode& out) {
  out.function = static_cast<FunctionHandle>(node.function);
  std::copy_n(node.grid, 3, out.grid);
  std::copy_n(node.block, 3, out.block);
  out.extra = list;
  return node.shared_bytes == 0 && ToCuda(node.extra, list);
}
GpuResult hipGraphAddKernelNode(NodeHandle* made, GraphHandle graph, const NodeHandle* before,
                                size_t n, const HipKernelNode* node) {
  void* list[5];
  KernelNode own;
  if (!ToCuda(*node, list, own)) return kInvalidValue;
  return Cuda().cuGraphAddKernelNode_v2(made, graph, before, n, &own);
}
GpuResult hipGraphExecKernelNodeSetParams(GraphExecHandle exec, NodeHandle at,
                                          const HipKernelNode* node) {
  void* list[5];
  KernelNode own;
  if (!ToCuda(*node, list, own)) return kInvalidValue;
  return Cuda().cuGraphExecKernelNodeSetParams_v2(exec, at, &own);
}
GpuResult hipGraphInstantiate(GraphExecHandle* exec, GraphHandle graph, NodeHandle*, char*,
                              size_t) {
  return Cuda().cuGraphInstantiateWithFlags(exec, graph, 0);
}

class FakeCompiler final : public devices::Compiler {
 public:
  absl::StatusOr<std::string> Compile(std::string_view source) const override {
    if (source.empty() || source.find("error") != std::string_view::npos)
      return absl::InternalError("The text has an error");
    return FakeCuda::Cubin(std::string(source));
  }
};

}  // namespace

FakeHip::FakeHip(FakeCuda& cuda) {
  for (int d = 0; d < cuda.options.devices; ++d) {
    ContextHandle context = nullptr;
    Cuda().cuDevicePrimaryCtxRetain(&context, d);
  }
}

std::shared_ptr<const devices::Compiler> FakeHip::TextCompiler() {
  return std::make_shared<FakeCompiler>();
}

HipApi FakeHip::Api() {
  const devices::cuda::CudaApi& cuda = Cuda();
  HipApi out;
  out.hipInit = cuda.cuInit;
  out.hipGetErrorName = hipGetErrorName;
  out.hipGetDeviceCount = cuda.cuDeviceGetCount;
  out.hipDeviceGet = cuda.cuDeviceGet;
  out.hipDeviceGetName = cuda.cuDeviceGetName;
  out.hipDeviceGetPCIBusId = cuda.cuDeviceGetPCIBusId;
  out.hipDeviceGetAttribute = hipDeviceGetAttribute;
  out.hipDeviceTotalMem = cuda.cuDeviceTotalMem_v2;
  out.hipGetDeviceProperties = hipGetDeviceProperties;
  out.hipSetDevice = hipSetDevice;
  out.hipDeviceReset = hipDeviceReset;
  out.hipMalloc = cuda.cuMemAlloc_v2;
  out.hipFree = cuda.cuMemFree_v2;
  out.hipHostRegister = cuda.cuMemHostRegister_v2;
  out.hipHostUnregister = cuda.cuMemHostUnregister;
  out.hipHostGetDevicePointer = cuda.cuMemHostGetDevicePointer_v2;
  out.hipMemcpyHtoDAsync = cuda.cuMemcpyHtoDAsync_v2;
  out.hipMemcpyDtoHAsync = cuda.cuMemcpyDtoHAsync_v2;
  out.hipMemcpyAsync = hipMemcpyAsync;
  out.hipDeviceCanAccessPeer = cuda.cuDeviceCanAccessPeer;
  out.hipDeviceEnablePeerAccess = hipDeviceEnablePeerAccess;
  out.hipMemcpyPeerAsync = hipMemcpyPeerAsync;
  out.hipMemsetD8Async = cuda.cuMemsetD8Async;
  out.hipStreamCreateWithFlags = cuda.cuStreamCreate;
  out.hipStreamDestroy = cuda.cuStreamDestroy_v2;
  out.hipStreamQuery = cuda.cuStreamQuery;
  out.hipStreamSynchronize = cuda.cuStreamSynchronize;
  out.hipStreamWaitEvent = cuda.cuStreamWaitEvent;
  out.hipEventCreateWithFlags = cuda.cuEventCreate;
  out.hipEventDestroy = cuda.cuEventDestroy_v2;
  out.hipEventRecord = cuda.cuEventRecord;
  out.hipEventQuery = cuda.cuEventQuery;
  out.hipEventElapsedTime = cuda.cuEventElapsedTime;
  out.hipModuleLoadData = cuda.cuModuleLoadData;
  out.hipModuleUnload = cuda.cuModuleUnload;
  out.hipModuleGetFunction = cuda.cuModuleGetFunction;
  out.hipFuncGetAttribute = cuda.cuFuncGetAttribute;
  out.hipModuleLaunchKernel = hipModuleLaunchKernel;
  out.hipGraphCreate = cuda.cuGraphCreate;
  out.hipGraphDestroy = cuda.cuGraphDestroy;
  out.hipGraphAddKernelNode = hipGraphAddKernelNode;
  out.hipGraphInstantiate = hipGraphInstantiate;
  out.hipGraphExecKernelNodeSetParams = hipGraphExecKernelNodeSetParams;
  out.hipGraphLaunch = cuda.cuGraphLaunch;
  out.hipGraphExecDestroy = cuda.cuGraphExecDestroy;
  return out;
}

devices::hip::HipDriver& FakeHip::LastingDriver() {
  static auto& drivers = *new std::vector<std::unique_ptr<devices::hip::HipDriver>>;
  return *drivers.emplace_back(devices::hip::HipDriver::Create(Api()).value());
}

}  // namespace uopd::tests
