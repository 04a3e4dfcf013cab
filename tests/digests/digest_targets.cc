// SPDX-License-Identifier: MIT
#include "tests/digests/digest_targets.h"

#include "core/base/status.h"
#include "core/base/target/gpu_targets.h"

namespace uopd::digests {
namespace {

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int kThreads = 16;

struct Processor {
  std::string_view name;
  std::vector<CacheLevel> caches;
  bool amx;
};

Target CpuTarget(const Processor& processor) {
  using enum DtypeNumber;
  Target out;
  out.arch = "x86_64";
  out.vector_bytes = 64;
  out.vector_registers = 32;
  out.has_scaling = true;
  if (processor.amx) {
    out.matrix_instructions = {{"amx_bf16", 16, 16, 32, BF16, BF16, F32},
                               {"amx_int8", 16, 16, 64, U8, I8, I32}};
  }
  out.matrix_instructions.push_back({"avx512_bf16", 1, 16, 2, BF16, BF16, F32});
  out.matrix_instructions.push_back({"avx512_vnni", 1, 16, 4, U8, I8, I32});
  out.caches = processor.caches;
  out.private_bytes = 1 * kMiB;
  out.threads = kThreads;
  out.shared_bytes = 256 * kKiB;
  out.max_grid[0] = (int64_t{1} << 31) - 1;
  return out;
}

std::vector<CodeFormat> FormatsOf(std::string_view arch) {
  if (arch.starts_with("sm_")) return {CodeFormat::kCudaC, CodeFormat::kPtx};
  if (arch.starts_with("gfx")) return {CodeFormat::kHipC, CodeFormat::kAmdgpuIr};
  return {CodeFormat::kOpenClC};
}

}  // namespace

std::vector<DigestTarget> DigestTargets() {
  const Processor processors[] = {
      {"zen4", {{32 * kKiB, 2}, {1 * kMiB, 2}, {32 * kMiB, 16}}, false},
      {"zen5", {{48 * kKiB, 2}, {1 * kMiB, 2}, {32 * kMiB, 16}}, false},
      {"spr", {{48 * kKiB, 2}, {2 * kMiB, 2}, {105 * kMiB, 112}}, true},
      {"spr_without_amx", {{48 * kKiB, 2}, {2 * kMiB, 2}, {105 * kMiB, 112}}, false}};
  std::vector<DigestTarget> out;
  for (const Processor& one : processors)
    out.push_back({one.name, CpuTarget(one), {CodeFormat::kLlvmIr}});
  for (const std::string_view arch :
       {"sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100", "gfx1201", "opencl"}) {
    const auto target = GpuTarget(arch);
    UOPD_CHECK(target.has_value());
    out.push_back({arch, *target, FormatsOf(arch)});
  }
  return out;
}

}  // namespace uopd::digests
