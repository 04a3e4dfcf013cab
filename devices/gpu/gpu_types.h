// SPDX-License-Identifier: MIT
// The types and constants that the drivers of NVIDIA and AMD have in common. AMD's HIP takes the
// numbers of the CUDA driver API for what both have, and gives its own codes numbers above 1000.
// Plain data.
#pragma once
#include <cstddef>
#include <cstdint>

namespace uopd::devices::gpu {

using GpuPointer = unsigned long long;  // an address in the memory of a device
using ContextHandle = struct ContextObject*;
using StreamHandle = struct StreamObject*;
using EventHandle = struct EventObject*;
using ModuleHandle = struct ModuleObject*;
using FunctionHandle = struct FunctionObject*;
using GraphHandle = struct GraphObject*;
using NodeHandle = struct NodeObject*;
using GraphExecHandle = struct GraphExecObject*;

// The codes that are told apart. Other codes may come too.
enum GpuResult : int {
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
  kPeerAlreadyEnabled = 704,
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

enum FunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionStaticShared = 1,
  kFunctionMaxDynamicShared = 8,
};

inline constexpr unsigned kStreamNonBlocking = 1;  // does not wait for the stream 0
inline constexpr unsigned kEventDefault = 0;       // with times
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kRegisterPortable = 1;   // pinned for every context
inline constexpr unsigned kRegisterDeviceMap = 2;  // the device may address it

// Keys of the list `extra` of a launch, by which all arguments are passed as one block of bytes.
// HIP ends the list with another key.
inline void* const kLaunchEnd = nullptr;
inline void* const kLaunchBuffer = reinterpret_cast<void*>(1);
inline void* const kLaunchBufferBytes = reinterpret_cast<void*>(2);

// A map as a kernel takes it, by value: a parameter with this size and alignment.
struct alignas(64) GpuTensorMap {
  std::byte bytes[128];
};

// Parameters of a kernel node of a graph, as CUDA has them (version 2).
struct KernelNode {
  FunctionHandle function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // read only if `function` is null
  ContextHandle context = nullptr;
};
static_assert(sizeof(KernelNode) == 72 && offsetof(KernelNode, arguments) == 40);

}  // namespace uopd::devices::gpu
