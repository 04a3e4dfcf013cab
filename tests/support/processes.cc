// SPDX-License-Identifier: MIT
#include "tests/support/processes.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

namespace uopd::test {
namespace {

struct Entry {
  Process process;
  pid_t parent = -1;
};

std::optional<Entry> Read(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  // Read through the stream: direct reads of its buffer throw if the process has ended meanwhile.
  std::ostringstream copy;
  copy << in.rdbuf();
  const std::string text = std::move(copy).str();
  const size_t open = text.find('('), close = text.rfind(')');  // the name may hold both
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  Entry out;
  out.process.pid = pid;
  out.process.name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  rest >> out.process.state >> out.parent;
  std::string skipped;
  for (int field = 5; field < 14; ++field) rest >> skipped;
  int64_t user = 0, system = 0, ended_user = 0, ended_system = 0;
  rest >> user >> system >> ended_user >> ended_system;
  if (!rest) return std::nullopt;
  out.process.cpu_ticks = user + system;
  out.process.ended_ticks = ended_user + ended_system;
  return out;
}

}  // namespace

std::vector<Process> Descendants(pid_t root) {
  std::map<pid_t, Entry> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    pid_t pid = -1;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (wrong != std::errc() || end != name.data() + name.size()) continue;
    if (auto read = Read(pid)) all[pid] = *std::move(read);
  }
  std::vector<Process> out;
  for (const auto& [pid, entry] : all) {
    pid_t at = pid;
    // Bounded, in case pids are reused while we read.
    for (int depth = 0; depth < 64 && at != root && all.contains(at); ++depth) at = all[at].parent;
    if (at == root && pid != root) out.push_back(entry.process);
  }
  return out;
}

int64_t TicksOfTree(pid_t root) {
  int64_t out = 0;
  if (const auto own = Read(root)) out = own->process.cpu_ticks + own->process.ended_ticks;
  for (const Process& process : Descendants(root)) out += process.cpu_ticks + process.ended_ticks;
  return out;
}

bool IsAlive(pid_t pid) {
  const auto entry = Read(pid);
  return entry.has_value() && entry->process.state != 'Z' && entry->process.state != 'X';
}

}  // namespace uopd::test
