// SPDX-License-Identifier: MIT
// One fork server process (fork_loop.h): from its start until everything that it leaves behind is
// gone.
//
// One thread starts and ends it: the keeper of fork_server.h. Any thread may call Ask. A caller
// that finds that the process does not answer kills it. From then on every Ask is UNAVAILABLE at
// once.
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
#include "server/worker/fork/fork_protocol.h"

namespace uopd::worker {

class ForkProcess {
 public:
  struct Limits {
    std::chrono::milliseconds look, request;  // as in ForkServer::Options
  };

  // Runs `program` as a fork server, in a process group of its own. The process gets SIGKILL when
  // the calling thread ends.
  static absl::StatusOr<std::shared_ptr<ForkProcess>> Launch(const std::string& program,
                                                             Limits limits);

  // OK once the process is up. CANCELLED: `stop` became readable. UNAVAILABLE: the process ended,
  // or it did not come up and was killed.
  absl::Status AwaitHello(int stop) UOPD_EXCLUDES(mu_);
  // Waits until the process ends (UNAVAILABLE) or `stop` is readable (CANCELLED). Kills the process
  // if a signal has stopped it.
  absl::Status Watch(int stop);
  // Kills what is left of the process group and takes the statuses of all members that end within
  // `limit`. Returns how the process ended, as text for people.
  std::string Bury(std::chrono::milliseconds limit);

  // Sends a request and returns its answer. A descriptor in the answer is put in `came`.
  absl::StatusOr<Reply> Ask(std::span<const std::byte> request, int fd, UniqueFd& came)
      UOPD_EXCLUDES(mu_);

  pid_t pid() const { return pid_; }

 private:
  ForkProcess(pid_t pid, UniqueFd pidfd, UniqueFd control, Limits limits)
      : pid_(pid), pidfd_(std::move(pidfd)), limits_(limits), control_(std::move(control)) {}
  absl::StatusOr<Reply> AwaitReply(int stop, UniqueFd& came) UOPD_REQUIRES(mu_);
  void Kill() const;

  const pid_t pid_;  // also the number of its group
  const UniqueFd pidfd_;
  const Limits limits_;
  Mutex mu_;  // one request at a time
  const UniqueFd control_ UOPD_GUARDED_BY(mu_);
  // An answer is missing, so the next answer would belong to another request.
  bool broken_ UOPD_GUARDED_BY(mu_) = false;
};

}  // namespace uopd::worker
