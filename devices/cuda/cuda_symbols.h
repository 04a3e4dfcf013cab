// SPDX-License-Identifier: MIT
// The functions of the CUDA driver as a struct of pointers. The tests fill it with functions of
// their own. Plain data.
#pragma once
#include <string>
#include <vector>

#include "devices/dl/symbol_table.h"
#include "devices/gpu/gpu_types.h"

namespace uopd::devices::cuda {

// The few types and constants of the CUDA driver API that this driver uses, so that the build needs
// no header of the vendor. Values as in the driver's ABI. What HIP has too is in
// devices/gpu/gpu_types.h. Plain data.

// The driver of CUDA is the shared code with NVIDIA's names.
using namespace gpu;  // NOLINT(google-build-using-namespace)

using CuDevice = int;
using CuPointer = GpuPointer;
using CuResult = GpuResult;
using CuContext = ContextHandle;
using CuStream = StreamHandle;
using CuEvent = EventHandle;
using CuModule = ModuleHandle;
using CuFunction = FunctionHandle;
using CuFunctionAttribute = FunctionAttribute;
using CuGraph = GraphHandle;
using CuGraphNode = NodeHandle;
using CuGraphExec = GraphExecHandle;
using CuKernelNode = KernelNode;
using CuTensorMap = GpuTensorMap;
using CuLinkState = struct CuLinkObject*;

enum CuDeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockDimX = 2,  // Y and Z follow
  kMaxGridDimX = 5,   // Y and Z follow
  kMaxSharedPerBlock = 8,
  kWarpSize = 10,
  kClockRateKhz = 13,
  kMultiprocessorCount = 16,
  kComputeMode = 20,
  kL2CacheBytes = 38,
  kUnifiedAddressing = 41,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMaxSharedPerMultiprocessor = 81,
  kMaxSharedPerBlockOptin = 97,
};

// Of maps of tensors: the data type of elements by their size, swizzles of spans, and what stands
// for no interleaving and for a fill by zeros.
inline constexpr int kMapBytes = 0, kMapHalves = 1, kMapWords = 2;
inline constexpr int kMapSwizzle32 = 1, kMapSwizzle64 = 2, kMapSwizzle128 = 3;
inline constexpr int kMapNoInterleave = 0, kMapFillZeros = 0;
inline constexpr int kMapPromote128 = 2;  // whole lines of 128 bytes are read into L2

// Options of the linker, and the kind of its input.
inline constexpr int kJitErrorLog = 5;
inline constexpr int kJitErrorLogBytes = 6;
inline constexpr int kJitOptimization = 7;
inline constexpr int kJitInputPtx = 1;

struct CudaApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "devices/cuda/cuda_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

// Opens the first of `files` that loads. UNAVAILABLE names what is missing: the library or the
// symbol.
absl::StatusOr<CudaApi> LoadCuda(const std::vector<std::string>& files = {"libcuda.so.1"});

}  // namespace uopd::devices::cuda
