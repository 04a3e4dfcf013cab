// SPDX-License-Identifier: MIT
#include "server/engine/usage/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

uint64_t NsOf(const timeval& time) {
  return (static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec)) *
         1000;
}

bool ReadStat(const std::string& path, ProcessStat& out) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return in && out.Parse(text.str());
}

// The fork server and its workers, which are its children and have none of their own. Processes
// that end meanwhile are left out.
std::vector<ProcessStat> ForksAndWorkers(pid_t forks) {
  std::vector<ProcessStat> out;
  std::ifstream children(Cat("/proc/", forks, "/task/", forks, "/children"));
  for (pid_t pid = forks; pid > 0;) {
    if (ProcessStat stat; ReadStat(Cat("/proc/", pid, "/stat"), stat))
      out.push_back(std::move(stat));
    if (!(children >> pid)) break;
  }
  return out;
}

}  // namespace

bool ProcessStat::Parse(const std::string& text) {
  // The name is in parentheses and may contain anything.
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return false;
  name = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::string state, skipped;
  int64_t user = 0, system = 0, children_user = 0, children_system = 0, pages = 0;
  rest >> state >> parent;                                     // fields 3 and 4
  for (int i = 5; i <= 13; ++i) rest >> skipped;               // up to majflt of children
  rest >> user >> system >> children_user >> children_system;  // 14 to 17
  for (int i = 18; i <= 23; ++i) rest >> skipped;
  rest >> pages;  // 24
  if (!rest) return false;
  static const int64_t tick_ns = 1'000'000'000 / std::max<int64_t>(sysconf(_SC_CLK_TCK), 1);
  cpu_ns = (user + system) * tick_ns;
  children_cpu_ns = (children_user + children_system) * tick_ns;
  resident_bytes = pages * sysconf(_SC_PAGESIZE);
  return true;
}

void ProcessUsage::Publish(pid_t forks) {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const uint64_t ns = NsOf(usage.ru_utime) + NsOf(usage.ru_stime);
    TimeCounter& cpu = metrics::ProcessCpu();
    const auto counted = static_cast<uint64_t>(cpu.seconds() * 1e9);
    if (ns > counted) cpu.AddNs(ns - counted);
  }
  ProcessStat self;
  if (ReadStat("/proc/self/stat", self))
    metrics::ProcessResident().Set(static_cast<double>(self.resident_bytes));
  PublishWorkers(forks);
}

void ProcessUsage::PublishWorkers(pid_t forks) {
  for (auto& [name, bytes] : names_) bytes = 0;
  int64_t cpu_ns = 0;
  if (forks > 0) {
    for (const ProcessStat& one : ForksAndWorkers(forks)) {
      // The fork server waits for the workers that end, so its children_cpu_ns has their time.
      cpu_ns += one.cpu_ns + one.children_cpu_ns;
      names_[one.name] += one.resident_bytes;
    }
  }
  if (forks != last_forks_) last_cpu_ns_ = 0;  // another one starts at 0
  last_forks_ = forks;
  // A worker that ends between two reads may be missing from both sums for a moment.
  if (cpu_ns > last_cpu_ns_) {
    metrics::WorkersCpu().AddNs(static_cast<uint64_t>(cpu_ns - last_cpu_ns_));
    last_cpu_ns_ = cpu_ns;
  }
  for (const auto& [name, bytes] : names_)
    metrics::WorkersResident({name}).Set(static_cast<double>(bytes));
}

}  // namespace uopd::engine
