// SPDX-License-Identifier: MIT
// The few types and constants of the CUDA driver API that this driver uses, so that the build needs
// no header of the vendor. Values as in the driver's ABI. Plain data.
#pragma once
#include <cstddef>
#include <cstdint>

namespace uopd::devices::cuda {

using CuDevice = int;
using CuPointer = unsigned long long;  // an address in the memory of a device
using CuContext = struct CuContextObject*;
using CuStream = struct CuStreamObject*;
using CuEvent = struct CuEventObject*;
using CuModule = struct CuModuleObject*;
using CuFunction = struct CuFunctionObject*;
using CuLinkState = struct CuLinkObject*;
using CuGraph = struct CuGraphObject*;
using CuGraphNode = struct CuGraphNodeObject*;
using CuGraphExec = struct CuGraphExecObject*;

// The codes that the driver tells apart. Other codes may come too.
enum CuResult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kStubLibrary = 34,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidPtx = 218,
  kNvlinkUncorrectable = 220,
  kJitCompilerNotFound = 221,
  kContained = 226,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHardwareStackError = 714,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kInvalidAddressSpace = 717,
  kInvalidPc = 718,
  kLaunchFailed = 719,
  kTensorMemoryLeak = 721,
  kNotSupported = 801,
  kSystemNotReady = 802,
  kSystemDriverMismatch = 803,
  kUnknown = 999,
};

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

enum CuFunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionStaticShared = 1,
  kFunctionMaxDynamicShared = 8,
};

inline constexpr unsigned kStreamNonBlocking = 1;  // does not wait for the stream 0
inline constexpr unsigned kEventDefault = 0;       // with times
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kRegisterPortable = 1;     // pinned for every context
inline constexpr unsigned kRegisterDeviceMap = 2;    // the device may address it
inline constexpr unsigned kContextBlockingSync = 4;  // waits sleep

// Options of the linker, and the kind of its input.
inline constexpr int kJitErrorLog = 5;
inline constexpr int kJitErrorLogBytes = 6;
inline constexpr int kJitOptimization = 7;
inline constexpr int kJitInputPtx = 1;

// Keys of the list `extra` of a launch, by which all arguments are passed as one block of bytes.
inline void* const kLaunchEnd = nullptr;
inline void* const kLaunchBuffer = reinterpret_cast<void*>(1);
inline void* const kLaunchBufferBytes = reinterpret_cast<void*>(2);

// Parameters of a kernel node, version 2.
struct CuKernelNode {
  CuFunction function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // read only if `function` is null
  CuContext context = nullptr;
};
static_assert(sizeof(CuKernelNode) == 72 && offsetof(CuKernelNode, arguments) == 40);

}  // namespace uopd::devices::cuda
