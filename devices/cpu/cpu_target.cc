// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_target.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <sched.h>
#include <algorithm>
#include <bit>
#include <cctype>
#include <fstream>
#include <limits>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "devices/cpu/cpu_baseline.h"

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

namespace {

std::string LineOf(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// Parses "32K", "1024K" or "32M". 0: the text is no size.
int64_t BytesOf(std::string text) {
  int shift = 0;
  if (!text.empty() && (text.back() == 'K' || text.back() == 'M')) {
    shift = text.back() == 'K' ? 10 : 20;
    text.pop_back();
  }
  int64_t n = 0;
  return absl::SimpleAtoi(text, &n) && n > 0 && n < (int64_t{1} << 40) ? n << shift : 0;
}

// The number of bits set in a mask like "00000000,00000003"; at least 1.
int CountOf(const std::string& mask) {
  int count = 0;
  for (char c : mask) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) continue;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    count += std::popcount(static_cast<unsigned>(digit));
  }
  return count > 0 ? count : 1;
}

int FirstProcessor() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) return i;
  }
  return 0;
}

}  // namespace

std::vector<CacheLevel> ReadCaches(const std::string& folder) {
  std::map<int, CacheLevel> by_level;
  for (int i = 0; i < 16; ++i) {
    const std::string index = absl::StrCat(folder, "/index", i, "/");
    const std::string type = LineOf(index + "type");
    if (type.empty()) break;
    if (type == "Instruction") continue;
    int level = 0;
    const int64_t bytes = BytesOf(LineOf(index + "size"));
    if (!absl::SimpleAtoi(LineOf(index + "level"), &level) || bytes == 0) continue;
    by_level[level] = {bytes, CountOf(LineOf(index + "shared_cpu_map"))};
  }
  std::vector<CacheLevel> out;
  for (const auto& [level, cache] : by_level) out.push_back(cache);
  return out;
}

std::vector<CacheLevel> ReadCaches() {
  return ReadCaches(absl::StrCat("/sys/devices/system/cpu/cpu", FirstProcessor(), "/cache"));
}

}  // namespace uopd::devices::cpu
