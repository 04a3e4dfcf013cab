// SPDX-License-Identifier: MIT
#include "devices/hip/hip_target.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/target/gpu_targets.h"
#include "core/base/target/matrix_instructions.h"

namespace uopd::devices::hip {
namespace {

// An upper bound of what a compute unit does in a cycle: several times the fastest matrix
// instruction.
constexpr double kMostPerCycle = 1 << 16;
constexpr double kHighestHz = 4e9;
// Of a block's shared memory: the word by which its threads poll together.
constexpr int64_t kPollBytes = 128;

// "gfx90a" of a structure that holds "gfx90a:sramecc+:xnack-" somewhere behind the device's name.
std::string ProcessorOf(std::string_view properties) {
  const size_t at = properties.find("gfx", kPropertiesName);
  if (at == std::string_view::npos) return "";
  properties.remove_prefix(at);
  const auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto end = std::find_if_not(properties.begin(), properties.end(), is_part);
  return std::string(properties.begin(), end);
}

absl::StatusOr<std::string> AskProcessor(const HipDriver& driver, int device) {
  const HipApi& hip = driver.hip();
  std::array<char, kPropertiesBytes> properties{};
  if (hip.hipGetDevicePropertiesR0600 != nullptr) {
    UOPD_TRY(driver.Check(hip.hipGetDevicePropertiesR0600(properties.data(), device),
                          "hipGetDevicePropertiesR0600"));
  } else if (hip.hipGetDeviceProperties != nullptr) {
    UOPD_TRY(driver.Check(hip.hipGetDeviceProperties(properties.data(), device),
                          "hipGetDeviceProperties"));
  }
  std::string out = ProcessorOf({properties.data(), properties.size()});
  if (out.empty()) return absl::UnimplementedError("This HIP does not name the device's processor");
  return out;
}

}  // namespace

absl::StatusOr<HipFacts> ReadHipFacts(const HipDriver& driver, int index) {
  const HipApi& hip = driver.hip();
  int device = 0;
  UOPD_TRY(driver.Check(hip.hipDeviceGet(&device, index), "hipDeviceGet"));
  HipFacts out;
  char text[256] = {};
  UOPD_TRY(driver.Check(hip.hipDeviceGetName(text, sizeof text, device), "hipDeviceGetName"));
  out.name = text;
  UOPD_TRY(
      driver.Check(hip.hipDeviceGetPCIBusId(text, sizeof text, device), "hipDeviceGetPCIBusId"));
  out.bus_id = text;
  UOPD_TRY(driver.Check(hip.hipDeviceTotalMem(&out.total_bytes, device), "hipDeviceTotalMem"));
  UOPD_ASSIGN(out.processor, AskProcessor(driver, device));
  absl::Status status;
  const auto ask = [&](int attribute) {
    int value = 0;
    const gpu::GpuResult result =
        hip.hipDeviceGetAttribute(&value, static_cast<HipAttribute>(attribute), device);
    if (status.ok()) status = driver.Check(result, "hipDeviceGetAttribute");
    return value;
  };
  out.units = ask(kComputeUnits);
  out.warp_lanes = ask(kWarpSize);
  out.max_block_threads = ask(kMaxThreadsPerBlock);
  for (int d = 0; d < 3; ++d) {
    out.max_block[d] = ask(kMaxBlockDimX + d);
    out.max_grid[d] = ask(kMaxGridDimX + d);
  }
  out.shared_bytes = ask(kMaxSharedPerBlock);
  out.l2_bytes = ask(kL2CacheBytes);
  out.clock_hz = int64_t{ask(kClockRateKhz)} * 1000;
  UOPD_TRY(status);
  return out;
}

std::optional<HipFacts> KnownHipFacts(std::string_view processor) {
  const std::optional<Target> target = GpuTarget(processor);
  if (!target || target->kind != "hip") return std::nullopt;
  HipFacts out;
  out.name = out.bus_id = "absent";
  out.processor = processor;
  out.units = target->units;
  out.warp_lanes = target->warp_lanes;
  std::fill_n(out.max_block, 3, 1024);
  out.max_grid[0] = std::numeric_limits<int32_t>::max();
  out.max_grid[1] = out.max_grid[2] = 65535;
  out.shared_bytes = target->shared_bytes + kPollBytes;
  out.l2_bytes = target->caches[1].bytes;
  out.total_bytes = size_t{64} << 30;
  return out;
}

Target DescribeHip(const HipFacts& facts) {
  // A processor that nobody knows by name has no matrix instructions.
  Target target = GpuTarget(facts.processor).value_or(*GpuTarget("gfx1100"));
  target.format = CodeFormat::kAmdgpuIr;
  target.arch = facts.processor;
  target.matrix_instructions = AmdMatrixInstructions(facts.processor);
  target.caches[1] = {std::max<int64_t>(facts.l2_bytes, 1 << 20), std::max(facts.units, 1)};
  target.warp_lanes = facts.warp_lanes;
  target.units = std::max(facts.units, 1);
  std::copy_n(facts.max_grid, 3, target.max_grid);
  std::copy_n(facts.max_block, 3, target.max_block);
  target.max_block_threads = facts.max_block_threads;
  target.shared_bytes = std::max<int64_t>(facts.shared_bytes - kPollBytes, 0);
  return target;
}

DeviceInfo HipInfo(const HipFacts& facts, int index, size_t limit_bytes) {
  DeviceInfo info;
  info.name = absl::StrCat("AMD:", index);
  info.model = facts.name;
  info.processor = "hip:" + facts.bus_id;
  info.max_buffer_bytes = info.total_bytes = static_cast<int64_t>(limit_bytes);
  info.peak_ops = std::max(kHighestHz, static_cast<double>(facts.clock_hz)) * kMostPerCycle *
                  std::max(facts.units, 1);
  info.runs_inline = false;
  return info;
}

}  // namespace uopd::devices::hip
