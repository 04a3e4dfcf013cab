// SPDX-License-Identifier: MIT
#include "tests/e2e/uopctl.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstdio>

#include "core/base/text.h"

namespace uopd::e2e {

nlohmann::json UopctlRun::envelope() const {
  if (std::ranges::count(out, '\n') != 1 || !out.ends_with('\n')) return nullptr;
  nlohmann::json line = nlohmann::json::parse(out, nullptr, false);
  return line.is_object() ? line : nullptr;
}

UopctlRun RunCtl(const std::string& arguments) {
  const TemporaryFolder folder;
  const std::string errors = (folder.path() / "stderr").string();
  UopctlRun result;
  FILE* pipe = popen(Cat(UOPCTL_BINARY, " ", arguments, " 2>", errors).c_str(), "r");
  char text[4096];
  while (const size_t n = fread(text, 1, sizeof text, pipe)) result.out.append(text, n);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  result.err = ReadFile(errors);
  return result;
}

UopctlRun RunCtl(const DaemonProcess& daemon, const std::string& arguments) {
  return RunCtl(Cat("--address ", daemon.listen(), " ", arguments));
}

}  // namespace uopd::e2e
