// SPDX-License-Identifier: MIT
#include "tests/e2e/compilers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <map>

namespace uopd::e2e {

using test::Process;

std::vector<Process> Named(pid_t daemon, const std::string& name) {
  std::vector<Process> out;
  for (Process& process : test::Descendants(daemon)) {
    if (process.name == name && process.state != 'Z') out.push_back(std::move(process));
  }
  return out;
}

pid_t HitCompiler(const std::vector<pid_t>& daemons, int signal) {
  constexpr char kName[] = "uopd-compile";
  std::map<pid_t, int64_t> before;
  for (const pid_t daemon : daemons) {
    for (const Process& worker : Named(daemon, kName)) before[worker.pid] = worker.cpu_ticks;
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (std::chrono::steady_clock::now() < limit) {
    for (const pid_t daemon : daemons) {
      for (const Process& worker : Named(daemon, kName)) {
        const bool busy = worker.cpu_ticks >= before[worker.pid] + 3 && worker.state == 'R';
        if (busy && kill(worker.pid, signal) == 0) return daemon;
      }
    }
  }
  ADD_FAILURE() << "no compiler was busy";
  return 0;
}

}  // namespace uopd::e2e
