// SPDX-License-Identifier: MIT
#include "server/worker/fork/process_state.h"

#include <fcntl.h>

#include <string>
#include <string_view>

#include "core/base/unique_fd.h"

namespace uopd::worker {

bool IsStopped(pid_t pid) {
  const UniqueFd fd(open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  char text[512];
  const ssize_t n = read(fd.get(), text, sizeof text);
  if (n <= 0) return false;
  // Format: PID (NAME) STATE ... The name may contain parentheses and spaces.
  const std::string_view line(text, static_cast<size_t>(n));
  const size_t close = line.rfind(')');
  return close != std::string_view::npos && close + 2 < line.size() && line[close + 2] == 'T';
}

bool StopWatch::SeesStopped() {
  const Clock::time_point now = Clock::now();
  if (now < next_) return false;
  next_ = now + between_;
  const bool before = was_;
  was_ = IsStopped(pid_);
  return before && was_;
}

}  // namespace uopd::worker
