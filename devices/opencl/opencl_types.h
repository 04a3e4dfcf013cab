// SPDX-License-Identifier: MIT
// The types and numbers of OpenCL that this driver uses, as the OpenCL specification defines them.
// They are declared here, so that a build needs no header of OpenCL. Plain data.
#pragma once
#include <cstddef>
#include <cstdint>

namespace uopd::devices::opencl {

using ClInt = int32_t;
using ClUint = uint32_t;
using ClBool = uint32_t;
using ClUlong = uint64_t;
using ClBits = uint64_t;

// Handles. Only pointers to these types exist.
struct ClPlatform;
struct ClDevice;
struct ClContext;
struct ClQueue;
struct ClProgram;
struct ClKernel;
struct ClEvent;

using ClEventCallback = void (*)(ClEvent*, ClInt status, void* user);

inline constexpr ClInt kClSuccess = 0;
inline constexpr ClInt kClDeviceNotFound = -1;
inline constexpr ClInt kClDeviceNotAvailable = -2;
inline constexpr ClInt kClMemObjectAllocationFailure = -4;
inline constexpr ClInt kClOutOfResources = -5;
inline constexpr ClInt kClOutOfHostMemory = -6;
inline constexpr ClInt kClProfilingInfoNotAvailable = -7;
inline constexpr ClInt kClBuildProgramFailure = -11;
inline constexpr ClInt kClPlatformNotFound = -1001;  // of the ICD loader: no driver is installed

// Bits of a device's type.
inline constexpr ClBits kClDeviceTypeCpu = 1 << 1;
inline constexpr ClBits kClDeviceTypeAll = 0xFFFFFFFF;

// Facts about platforms and devices.
inline constexpr ClUint kClPlatformVersion = 0x0901;
inline constexpr ClUint kClPlatformName = 0x0902;
inline constexpr ClUint kClDeviceType = 0x1000;
inline constexpr ClUint kClDeviceMaxComputeUnits = 0x1002;
inline constexpr ClUint kClDeviceMaxWorkGroupSize = 0x1004;
inline constexpr ClUint kClDeviceMaxWorkItemSizes = 0x1005;
inline constexpr ClUint kClDeviceMaxMemAllocSize = 0x1010;
inline constexpr ClUint kClDeviceMaxParameterSize = 0x1017;
inline constexpr ClUint kClDeviceSingleFpConfig = 0x101B;
inline constexpr ClUint kClDeviceGlobalMemCacheSize = 0x101E;
inline constexpr ClUint kClDeviceGlobalMemSize = 0x101F;
inline constexpr ClUint kClDeviceLocalMemSize = 0x1023;
inline constexpr ClUint kClDeviceAvailable = 0x1027;
inline constexpr ClUint kClDeviceName = 0x102B;
inline constexpr ClUint kClDriverVersion = 0x102D;
inline constexpr ClUint kClDeviceProfile = 0x102E;
inline constexpr ClUint kClDeviceVersion = 0x102F;
inline constexpr ClUint kClDeviceExtensions = 0x1030;
inline constexpr ClUint kClDeviceHostUnifiedMemory = 0x1035;
inline constexpr ClUint kClDeviceSvmCapabilities = 0x1053;
inline constexpr ClUint kClDeviceWarpSizeNv = 0x4003;
inline constexpr ClUint kClDeviceWavefrontWidthAmd = 0x4043;

inline constexpr ClBits kClFpFma = 1 << 5;
inline constexpr ClBits kClFpCorrectlyRoundedDivideSqrt = 1 << 7;
inline constexpr ClBits kClSvmCoarseGrainBuffer = 1 << 0;
inline constexpr ClBits kClSvmFineGrainBuffer = 1 << 1;

inline constexpr intptr_t kClContextPlatform = 0x1084;
inline constexpr ClBits kClQueueProfilingEnable = 1 << 1;
inline constexpr ClBits kClMemReadWrite = 1 << 0;
inline constexpr ClBits kClMemSvmFineGrainBuffer = 1 << 10;

inline constexpr ClUint kClProgramBinarySizes = 0x1165;
inline constexpr ClUint kClProgramBinaries = 0x1166;
inline constexpr ClUint kClProgramBuildLog = 0x1183;
inline constexpr ClUint kClKernelNumArgs = 0x1191;
inline constexpr ClUint kClEventStatus = 0x11D3;
inline constexpr ClInt kClComplete = 0;  // status of an event; it is negative after an error
inline constexpr ClUint kClProfilingStart = 0x1282;
inline constexpr ClUint kClProfilingEnd = 0x1283;

}  // namespace uopd::devices::opencl
