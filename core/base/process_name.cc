// SPDX-License-Identifier: MIT
#include "core/base/process_name.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "core/base/text.h"

namespace uopd {

ProcessName ProcessName::OfThisProcess() {
  ProcessName out;
  struct stat pid_namespace{};
  if (stat("/proc/self/ns/pid", &pid_namespace) != 0) return {};
  out.pid_namespace = pid_namespace.st_ino;
  out.pid = getpid();
  out.start_time = StartTimeOf(out.pid);
  if (out.start_time == 0) return {};
  std::ifstream("/proc/sys/kernel/random/boot_id") >> out.boot_id;
  return out;
}

// Field 22 of /proc/PID/stat.
uint64_t StartTimeOf(int64_t pid) {
  constexpr int kFirst = 3, kStartTime = 22;
  std::ifstream file(Cat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // The name of the program, field 2, is in parentheses and may contain anything.
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = kFirst; field < kStartTime; ++field) fields >> skipped;
  uint64_t out = 0;
  fields >> out;
  return fields ? out : 0;
}

}  // namespace uopd
