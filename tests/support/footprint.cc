// SPDX-License-Identifier: MIT
#include "tests/support/footprint.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "tests/support/processes.h"

namespace uopd::test {

Footprint FootprintOf(pid_t pid) {
  Footprint out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(Cat("/proc/", pid, "/fd"), error)) {
    ++out.descriptors;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (target.string().starts_with("/memfd:")) ++out.memfds;
  }
  for (const Process& child : Descendants(pid)) {
    ++out.children;
    if (child.state == 'Z') ++out.zombies;
  }
  std::ifstream statm(Cat("/proc/", pid, "/statm"));
  double total = 0, resident = 0;
  statm >> total >> resident;
  out.resident_mib = resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
  return out;
}

}  // namespace uopd::test
