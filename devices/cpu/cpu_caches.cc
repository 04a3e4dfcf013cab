// SPDX-License-Identifier: MIT
#include "devices/cpu/cpu_caches.h"

#include <sched.h>

#include <bit>
#include <cctype>
#include <fstream>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace uopd::devices::cpu {
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
