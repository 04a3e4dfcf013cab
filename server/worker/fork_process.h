// SPDX-License-Identifier: MIT
// One fork server process (fork_loop.h), from its start to the last of what it leaves behind.
//
// Started and ended by one thread, the keeper of fork_server.h; Ask is for all threads. Whoever
// finds that it does not answer kills it, and from then on every Ask is UNAVAILABLE at once.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "server/worker/fork_protocol.h"

namespace uopd::worker {

class ForkProcess {
 public:
  struct Limits {
    std::chrono::milliseconds look, request;  // as ForkServer::Options
  };

  // Runs `program` as a fork server, in a process group of its own. It gets SIGKILL when the
  // calling thread ends.
  static absl::StatusOr<std::shared_ptr<ForkProcess>> Launch(const std::string& program,
                                                             Limits limits);

  // OK once the process is up. CANCELLED: `stop` became readable; UNAVAILABLE: it ended, or was
  // killed because it does not come up.
  absl::Status AwaitHello(int stop) UOPD_EXCLUDES(mu_);
  // Until it ends (UNAVAILABLE) or `stop` is readable (CANCELLED). Kills it when it is stopped.
  absl::Status Watch(int stop);
  // Kills what is left of the group and takes the statuses of all that ended within `limit`. How
  // the process ended, for people.
  std::string Bury(std::chrono::milliseconds limit);

  // A request and its answer; a descriptor that comes along is put in `came`.
  absl::StatusOr<Reply> Ask(std::span<const std::byte> request, int fd, UniqueFd& came)
      UOPD_EXCLUDES(mu_);

  pid_t pid() const { return pid_; }

 private:
  ForkProcess(pid_t pid, UniqueFd pidfd, UniqueFd control, Limits limits)
      : pid_(pid), pidfd_(std::move(pidfd)), limits_(limits), control_(std::move(control)) {}
  absl::StatusOr<Reply> AwaitReply(int stop, UniqueFd& came) UOPD_REQUIRES(mu_);
  void Kill() const;

  const pid_t pid_;  // and of its group
  const UniqueFd pidfd_;
  const Limits limits_;
  Mutex mu_;  // one request at a time
  const UniqueFd control_ UOPD_GUARDED_BY(mu_);
  bool broken_ UOPD_GUARDED_BY(mu_) = false;  // an answer is missing: what comes next is not ours
};

}  // namespace uopd::worker
