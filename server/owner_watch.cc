// SPDX-License-Identifier: MIT
#include "server/owner_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>

#include "core/base/telemetry/log.h"
#include "core/base/text.h"

namespace uopd {

absl::StatusOr<std::unique_ptr<OwnerWatch>> OwnerWatch::Start(int fd) {
  // The helper processes of the daemon must not hold it.
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return absl::InvalidArgumentError(
        Cat("setting server.owner_fd (", fd, "): ", std::strerror(errno)));
  }
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return absl::ResourceExhaustedError(Cat("eventfd: ", std::strerror(errno)));
  return std::unique_ptr<OwnerWatch>(new OwnerWatch(UniqueFd(fd), std::move(stop)));
}

OwnerWatch::OwnerWatch(UniqueFd owner, UniqueFd stop)
    : owner_(std::move(owner)), stop_(std::move(stop)), thread_([this] { Watch(); }) {}

OwnerWatch::~OwnerWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void OwnerWatch::Watch() const {
  pollfd fds[] = {{owner_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  if (fds[1].revents != 0) return;
  UOPD_LOG(kInfo, "the process that the daemon belongs to has ended");
  kill(getpid(), SIGTERM);
}

}  // namespace uopd
