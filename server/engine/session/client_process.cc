// SPDX-License-Identifier: MIT
#include "server/engine/session/client_process.h"

#include <poll.h>

#include <climits>

#include "core/base/pidfd.h"

namespace uopd::engine {
namespace {

bool Readable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, 0) == 1;
}

}  // namespace

ClientProcess::ClientProcess(const ProcessName& name) {
  static const ProcessName own = ProcessName::OfThisProcess();
  if (own.boot_id.empty() || name.boot_id != own.boot_id ||
      name.pid_namespace != own.pid_namespace || name.pid <= 0 || name.pid > INT_MAX ||
      name.start_time == 0) {
    return;
  }
  UniqueFd pidfd(pidfd_open(static_cast<pid_t>(name.pid), 0));
  if (!pidfd) return;
  const uint64_t start_time = StartTimeOf(name.pid);
  // As long as the process of the pidfd lives, its number is of no other process.
  if (start_time == name.start_time && !Readable(pidfd.get())) pidfd_ = std::move(pidfd);
}

bool ClientProcess::Ended() const { return known() && Readable(pidfd_.get()); }

}  // namespace uopd::engine
