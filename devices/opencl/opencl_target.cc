// SPDX-License-Identifier: MIT
#include "devices/opencl/opencl_target.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace uopd::devices::opencl {
namespace {

constexpr int kLanes = 16;  // OpenCL C has no longer vectors
// Changes when the text that the compiler puts before a kernel, or the form of its objects,
// changes.
constexpr char kCompilerVersion[] = "uopd-opencl-1";

bool HasExtension(const OpenClContext& context, const char* name) {
  const std::vector<std::string> names =
      absl::StrSplit(context.Text(kClDeviceExtensions), ' ', absl::SkipEmpty());
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Work items that execute one instruction together. OpenCL 1.2 has no name for this number.
int WarpLanes(const OpenClContext& context) {
  constexpr int kCpu = 8, kGpu = 32;
  uint64_t lanes = 0;
  if (HasExtension(context, "cl_nv_device_attribute_query")) {
    lanes = context.Number(kClDeviceWarpSizeNv);
  } else if (HasExtension(context, "cl_amd_device_attribute_query")) {
    lanes = context.Number(kClDeviceWavefrontWidthAmd);
  }
  if (lanes > 0) return static_cast<int>(std::min<uint64_t>(lanes, 1024));
  return IsHostProcessor(context) ? kCpu : kGpu;
}

int64_t Clamped(uint64_t value) {
  return static_cast<int64_t>(
      std::min<uint64_t>(value, uint64_t{std::numeric_limits<int64_t>::max()}));
}

DtypeNumberSet Dtypes(const OpenClContext& context) {
  using enum DtypeNumber;
  // Kernels load, store and convert f16 by functions of the core language: cl_khr_fp16 is not
  // needed.
  DtypeNumberSet out{Bool, I8, U8, I16, U16, I32, U32, I64, U64, F16, F32};
  if (HasExtension(context, "cl_khr_fp64")) out.Add(F64);
  return out;
}

void DescribeLaunches(const OpenClContext& context, Target& target) {
  // A launch has grid x block work items, which 64 bits can count.
  target.max_grid[0] = std::numeric_limits<int32_t>::max();
  target.max_grid[1] = target.max_grid[2] = std::numeric_limits<uint16_t>::max();
  const std::vector<size_t> most = context.Sizes(kClDeviceMaxWorkItemSizes, 3);
  for (size_t i = 0; i < 3; ++i) target.max_block[i] = std::max<int64_t>(Clamped(most[i]), 1);
  target.max_block_threads =
      std::max<int64_t>(Clamped(context.Number(kClDeviceMaxWorkGroupSize)), 1);
  target.shared_bytes = Clamped(context.Number(kClDeviceLocalMemSize));
  target.units = std::max(1, static_cast<int>(context.Number(kClDeviceMaxComputeUnits)));
  target.warp_lanes = WarpLanes(context);
  // Room for a pointer each, and for 31 variables and the stop word.
  const int64_t words = Clamped(context.Number(kClDeviceMaxParameterSize)) / 8;
  target.max_buffers = static_cast<int>(std::clamp<int64_t>(words - 32, 4, 1 << 16));
}

}  // namespace

bool IsHostProcessor(const OpenClContext& context) {
  return (context.Number(kClDeviceType) & kClDeviceTypeCpu) != 0;
}

bool SharesMemoryWithHost(const OpenClContext& context) {
  return (context.Number(kClDeviceSvmCapabilities) & kClSvmFineGrainBuffer) != 0 &&
         (IsHostProcessor(context) || context.Number(kClDeviceHostUnifiedMemory) != 0);
}

absl::Status CheckUsable(const OpenClContext& context) {
  const auto refuse = [&](const char* why) {
    return absl::UnavailableError(
        absl::StrCat("The OpenCL device ", context.Text(kClDeviceName), " cannot be used: ", why));
  };
  if (context.Number(kClDeviceAvailable) == 0) return refuse("its driver says it is not available");
  if (context.Text(kClDeviceProfile) != "FULL_PROFILE") {
    return refuse("it has not the full profile of OpenCL");
  }
  if ((context.Number(kClDeviceSvmCapabilities) &
       (kClSvmCoarseGrainBuffer | kClSvmFineGrainBuffer)) == 0) {
    return refuse("it has no shared virtual memory (SVM), by which buffers are addressed");
  }
  return absl::OkStatus();
}

std::string BuildOptions(const OpenClContext& context) {
  std::string out = "-cl-std=CL1.2";
  if ((context.Number(kClDeviceSingleFpConfig) & kClFpCorrectlyRoundedDivideSqrt) != 0) {
    out += " -cl-fp32-correctly-rounded-divide-sqrt";
  }
  return out;
}

Target Describe(const OpenClContext& context) {
  const bool cpu = IsHostProcessor(context);
  Target target;
  target.kind = "opencl";
  target.arch = context.Text(kClDeviceName);
  target.toolchain =
      absl::StrCat(kCompilerVersion, ";", context.PlatformText(kClPlatformName), ";",
                   context.PlatformText(kClPlatformVersion), ";", context.Text(kClDeviceVersion),
                   ";", context.Text(kClDriverVersion), ";", BuildOptions(context));
  target.format = CodeFormat::kOpenClC;
  target.vector_lanes = kLanes;
  target.has_fma = (context.Number(kClDeviceSingleFpConfig) & kClFpFma) != 0;
  target.dtypes = Dtypes(context);
  target.vector_bytes = 16;
  target.vector_registers = cpu ? 32 : 128;
  // The private arrays of all work items of a block lie side by side in a cache of the host, or in
  // the registers of a GPU.
  target.private_bytes = cpu ? 16 << 10 : 4 << 10;
  const int units = std::max(1, static_cast<int>(context.Number(kClDeviceMaxComputeUnits)));
  target.caches = {{cpu ? 32 << 10 : 16 << 10, 1}};
  if (const int64_t last = Clamped(context.Number(kClDeviceGlobalMemCacheSize));
      last > target.caches[0].bytes) {
    target.caches.push_back({last, units});
  }
  target.blocks = true;
  target.speeds = Speeds::OfGpu();
  target.narrow_index = !cpu;
  DescribeLaunches(context, target);
  return target;
}

}  // namespace uopd::devices::opencl
