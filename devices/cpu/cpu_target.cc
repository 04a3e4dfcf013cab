// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_target.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devices/cpu/cpu_baseline.h"
#include "devices/cpu/cpu_caches.h"

namespace uopd::devices::cpu {
namespace {

bool HasAll(const CpuTarget& target, std::initializer_list<const char*> features) {
  return std::all_of(features.begin(), features.end(),
                     [&](const char* f) { return target.Has(f); });
}

}  // namespace

bool CpuTarget::Has(const std::string& feature) const {
  return absl::StrContains("," + features + ",", ",+" + feature + ",");
}

std::string CpuTarget::Toolchain() const {
  return absl::StrCat("llvm-", LLVM_VERSION_STRING, ";O2;slp;lean1;masks1;no-misched;pic;fp=ieee;",
                      triple, ";cpu=", cpu, ";tune=", tune, ";vector=", 8 * vector_bytes,
                      ";features=", features);
}

CpuTarget MakeCpuTarget(const std::optional<std::string>& features) {
  CpuTarget target;
  target.triple = llvm::sys::getProcessTriple();
  const llvm::Triple triple(target.triple);
  target.arch = triple.getArchName().str();
  target.features = features ? *features : FeaturesText(ReadMachineFeatures());
  if (!triple.isX86()) {
    target.cpu = target.tune = "generic";
    return target;
  }
  target.cpu = target.tune = "x86-64";
  if (HasAll(target, {"avx2", "bmi2", "fma", "f16c"})) target.tune = "x86-64-v3";
  if (HasAll(target, {"avx512f", "avx512bw", "avx512dq", "avx512vl"})) target.tune = "x86-64-v4";
  if (target.Has("avx") || target.Has("avx2")) target.vector_bytes = 32;
  if (target.Has("avx512f")) target.vector_bytes = 64;
  return target;
}

Target Describe(const CpuTarget& cpu, int threads) {
  using enum DtypeNumber;
  Target target;
  target.kind = "cpu";
  target.arch = cpu.arch;
  target.features = cpu.features;
  target.toolchain = cpu.Toolchain();
  target.vector_bytes = cpu.vector_bytes;
  const bool arm = cpu.arch == "aarch64";
  target.vector_registers = arm || cpu.Has("avx512f") ? 32 : 16;
  target.has_fma = arm || cpu.Has("fma");
  target.has_scaling = cpu.Has("avx512f") && cpu.Has("avx512vl");
  if (cpu.Has("amx-bf16")) {
    target.matrix_instructions.push_back({"amx_bf16", 16, 16, 32, BF16, BF16, F32});
  }
  if (cpu.Has("amx-fp16")) {
    target.matrix_instructions.push_back({"amx_f16", 16, 16, 32, F16, F16, F32});
  }
  if (cpu.Has("amx-int8")) {
    target.matrix_instructions.push_back({"amx_int8", 16, 16, 64, U8, I8, I32});
  }
  const int lanes = cpu.vector_bytes / 4;
  if (cpu.Has("avx512bf16")) {
    target.matrix_instructions.push_back({"avx512_bf16", 1, lanes, 2, BF16, BF16, F32});
  }
  if (cpu.Has("avx512vnni")) {
    target.matrix_instructions.push_back({"avx512_vnni", 1, lanes, 4, U8, I8, I32});
  }
  if (auto caches = ReadCaches(); !caches.empty()) target.caches = std::move(caches);
  // The arrays of a kernel are on the stack of its thread, and worth having only in the cache.
  target.private_bytes = std::clamp<int64_t>(target.OwnCacheBytes(), 512 << 10, 2 << 20);
  target.threads = threads;
  target.shared_bytes = 256 << 10;  // any memory: enough for running sums over 16,000 blocks
  target.max_grid[0] = std::numeric_limits<int32_t>::max();
  return target;
}

}  // namespace uopd::devices::cpu
