// SPDX-License-Identifier: MIT
#include "devices/cuda/cuda_target.h"

#include <algorithm>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/target/gpu_targets.h"
#include "core/base/target/matrix_instructions.h"

namespace uopd::devices::cuda {
namespace {

constexpr int kModeProhibited = 2;

// An upper bound of what a processor does in a cycle: several times the fastest matrix instruction.
constexpr double kOpsPerCycle = 1 << 16;
constexpr double kFastestHz = 4e9;

}  // namespace

std::string CudaFacts::arch() const { return absl::StrCat("sm_", capability, specific ? "a" : ""); }

absl::StatusOr<CudaFacts> ReadCudaFacts(const CudaDriver& driver, int index) {
  const CudaApi& api = driver.cuda();
  CuDevice device = 0;
  UOPD_TRY(driver.Check(api.cuDeviceGet(&device, index), "cuDeviceGet"));
  CudaFacts out;
  char text[256] = {};
  UOPD_TRY(driver.Check(api.cuDeviceGetName(text, sizeof text, device), "cuDeviceGetName"));
  out.name = text;
  UOPD_TRY(driver.Check(api.cuDeviceGetPCIBusId(text, sizeof text, device), "cuDeviceGetPCIBusId"));
  out.bus_id = text;
  UOPD_TRY(driver.Check(api.cuDeviceTotalMem_v2(&out.total_bytes, device), "cuDeviceTotalMem_v2"));
  absl::Status status;
  const auto ask = [&](int attribute) {
    int value = 0;
    const CuResult result =
        api.cuDeviceGetAttribute(&value, static_cast<CuDeviceAttribute>(attribute), device);
    if (status.ok()) status = driver.Check(result, "cuDeviceGetAttribute");
    return value;
  };
  out.capability = 10 * ask(kCapabilityMajor) + ask(kCapabilityMinor);
  out.units = ask(kMultiprocessorCount);
  out.warp_lanes = ask(kWarpSize);
  out.max_block_threads = ask(kMaxThreadsPerBlock);
  for (int d = 0; d < 3; ++d) {
    out.max_block[d] = ask(kMaxBlockDimX + d);
    out.max_grid[d] = ask(kMaxGridDimX + d);
  }
  out.shared_bytes = std::max(ask(kMaxSharedPerBlock), ask(kMaxSharedPerBlockOptin));
  out.unit_shared_bytes = ask(kMaxSharedPerMultiprocessor);
  out.l2_bytes = ask(kL2CacheBytes);
  out.clock_hz = int64_t{ask(kClockRateKhz)} * 1000;
  const int mode = ask(kComputeMode);
  const bool unified = ask(kUnifiedAddressing) != 0;
  UOPD_TRY(status);
  if (mode == kModeProhibited) {
    return absl::UnavailableError(
        absl::StrCat("The compute mode of ", out.name, " forbids its use"));
  }
  if (!unified) {
    return absl::UnimplementedError(absl::StrCat(out.name, " has no unified addresses"));
  }
  return out;
}

std::optional<CudaFacts> KnownCudaFacts(std::string_view arch) {
  const std::optional<Target> target = GpuTarget(arch);
  CudaFacts out;
  constexpr size_t kPrefix = 3;  // of "sm_"
  out.specific = arch.ends_with('a');
  std::string_view number = arch.substr(std::min(kPrefix, arch.size()));
  if (out.specific) number.remove_suffix(1);
  if (!target || target->kind != "cuda" || !absl::SimpleAtoi(std::string(number), &out.capability))
    return std::nullopt;
  out.name = out.bus_id = "absent";
  out.units = target->units;
  out.warp_lanes = target->warp_lanes;
  out.max_block[0] = out.max_block[1] = 1024, out.max_block[2] = 64;
  out.max_grid[0] = std::numeric_limits<int32_t>::max();
  out.max_grid[1] = out.max_grid[2] = 65535;
  out.shared_bytes = target->shared_bytes;
  out.unit_shared_bytes = target->shared_bytes + (1 << 10);  // 1 KiB of each block is the system's
  out.l2_bytes = target->caches[1].bytes;
  out.total_bytes = size_t{80} << 30;
  return out;
}

Target DescribeCuda(const CudaFacts& facts) {
  // A chip that nobody knows by name has at least what the oldest known one has.
  const std::optional<Target> known = GpuTarget(facts.arch());
  Target target = known.value_or(*GpuTarget("sm_75"));
  target.arch = facts.arch();
  if (!known) target.matrix_instructions = NvidiaMatrixInstructions(facts.capability);
  target.matrix_loads = facts.capability >= 75;
  target.async_copies = facts.capability >= 80;
  AddNvidiaInstructions(facts.capability, target);
  target.caches = {{std::max<int64_t>(facts.unit_shared_bytes, 64 << 10), 1},
                   {std::max<int64_t>(facts.l2_bytes, 1 << 20), std::max(facts.units, 1)}};
  target.warp_lanes = facts.warp_lanes;
  target.units = std::max(facts.units, 1);
  std::copy_n(facts.max_grid, 3, target.max_grid);
  std::copy_n(facts.max_block, 3, target.max_block);
  target.max_block_threads = facts.max_block_threads;
  target.shared_bytes = facts.shared_bytes;
  return target;
}

DeviceInfo CudaInfo(const CudaFacts& facts, int index, size_t limit_bytes) {
  DeviceInfo info;
  info.name = absl::StrCat("CUDA:", index);
  info.model = facts.name;
  info.processor = "cuda:" + facts.bus_id;
  info.max_buffer_bytes = info.total_bytes = static_cast<int64_t>(limit_bytes);
  info.peak_ops = std::max(kFastestHz, static_cast<double>(facts.clock_hz)) * kOpsPerCycle *
                  std::max(facts.units, 1);
  info.runs_inline = false;
  return info;
}

}  // namespace uopd::devices::cuda
