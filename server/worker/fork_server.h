// SPDX-License-Identifier: MIT
// A tiny process, forked before anything else happened in the daemon, that forks the workers.
//
// Why: a process with threads, gRPC and open drivers cannot fork safely, and a worker forked from
// it would inherit its memory and descriptors. The fork server has one thread and nothing open but
// its control socket; a worker gets stderr and its own socket. Both die with their parent.
//
//   int main() {
//     auto forks = ForkServer::Start(StandardJobs());   // first statement of main
//
// Owned by main, outlives every Supervisor. Thread-safe. When the fork server itself dies (which no
// job can cause), Spawn returns UNAVAILABLE from then on: the daemon serves without workers.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/worker/unique_fd.h"
#include "server/worker/worker_process.h"

namespace uopd::worker {

// A worker as its supervisor holds it.
struct SpawnedWorker {
  pid_t pid = -1;
  UniqueFd pidfd;   // readable once the process ended; pidfd_send_signal cannot hit another one
  UniqueFd socket;  // our end
};

class ForkServer {
 public:
  // FAILED_PRECONDITION when this process has several threads already. The handlers are the only
  // jobs that workers will ever know; what they point to must exist now.
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(std::vector<JobHandler> handlers);
  // Ends the fork server and with it every worker.
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  absl::StatusOr<SpawnedWorker> Spawn(const WorkerSetup& setup) UOPD_EXCLUDES(mu_);
  // Waits until the worker ended, at most `timeout`, and returns its status as waitpid gives it.
  // DEADLINE_EXCEEDED for one that even SIGKILL does not end (stuck in a driver); it may be asked
  // again.
  absl::StatusOr<int> Reap(const SpawnedWorker& worker, std::chrono::milliseconds timeout)
      UOPD_EXCLUDES(mu_);

  pid_t pid() const { return pid_; }

 private:
  ForkServer(pid_t pid, UniqueFd control) : pid_(pid), control_(std::move(control)) {}

  const pid_t pid_;
  Mutex mu_;  // one request at a time
  UniqueFd control_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::worker
