// SPDX-License-Identifier: MIT
// The functions of AMD's HIP as a struct of pointers. The tests fill it with functions of their
// own. Plain data.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "devices/dl/symbol_table.h"
#include "devices/gpu/gpu_types.h"

namespace uopd::devices::hip {

// What AMD's HIP has on its own of the types and constants that this driver uses, so that the build
// needs no header of the vendor. Values as in the ABI of libamdhip64. The rest is in
// devices/gpu/gpu_types.h. Plain data.
enum HipAttribute : int {
  kClockRateKhz = 5,
  kL2CacheBytes = 19,
  kMaxBlockDimX = 26,  // Y and Z follow
  kMaxGridDimX = 29,   // Y and Z follow
  kMaxThreadsPerBlock = 56,
  kComputeUnits = 63,
  kMaxSharedPerBlock = 74,
  kWarpSize = 87,
};

inline constexpr int kCopyDefault = 4;  // the direction follows from the addresses
// The key that ends the list `extra` of a launch.
inline void* const kHipLaunchEnd = reinterpret_cast<void*>(3);

// Parameters of a kernel node of a graph.
struct HipKernelNode {
  unsigned block[3] = {1, 1, 1};
  void** extra = nullptr;
  void* function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  void** arguments = nullptr;
  unsigned shared_bytes = 0;
};
static_assert(sizeof(HipKernelNode) == 64 && offsetof(HipKernelNode, arguments) == 48);

// The properties of a device are a structure whose layout depends on the version. It is smaller
// than this, begins with the name of the device, and has the name of the processor,
// "gfx90a:sramecc+:xnack-", behind that.
inline constexpr size_t kPropertiesBytes = 8192, kPropertiesName = 256;

struct HipApi {
#define UOPD_SYM UOPD_DL_POINTER
#define UOPD_SYM_OPT UOPD_DL_POINTER
#include "devices/hip/hip_symbols.def"
#undef UOPD_SYM
#undef UOPD_SYM_OPT
};

// Opens the first of `files` that loads. UNAVAILABLE names what is missing: the library or the
// symbol.
absl::StatusOr<HipApi> LoadHip(const std::vector<std::string>& files = {
                                   "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                   "libamdhip64.so"});

}  // namespace uopd::devices::hip
