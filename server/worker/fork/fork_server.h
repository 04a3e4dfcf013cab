// SPDX-License-Identifier: MIT
// The daemon's side of its fork server (fork_loop.h), which forks the workers. Starts the process,
// watches it and replaces it.
//
//            hello                   died, or was stopped and then killed
//   starting ──────► up ───────────────────────────────────────────────────┐
//      ▲                                                                    ▼
//      └──────────── at once; after a pause when it never came up ──────── away
//
// The process runs this program again. posix_spawn starts it, which is safe in a process with
// threads. When the process ends, for whatever reason, its workers end with it, and a new process
// takes its place. Meanwhile Spawn waits, and Unready says why. The process and its workers are one
// process group, so the processes that it leaves behind can be found. None of them stays a zombie,
// since the daemon adopts orphans.
//
// No request to the process waits without end. A process that a signal has stopped, or that needs
// longer than Options::request_limit, is killed and replaced.
//
// Thread-safe. Owned by main. Outlives every Supervisor.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/base/work_limits.h"
#include "server/worker/frame_channel.h"
#include "server/worker/worker_process.h"

namespace uopd::worker {

class ForkProcess;

// A worker as its supervisor sees it.
struct SpawnedWorker {
  pid_t pid = -1;
  UniqueFd pidfd;   // readable once the process ended; signals reach no other process
  UniqueFd socket;  // the supervisor's end
  std::shared_ptr<ForkProcess> parent;
};

class ForkServer {
 public:
  struct Options {
    std::string program = "/proc/self/exe";  // its main calls BecomeForkServer first
    // Interval of the checks whether the process is stopped. After two such checks in a row it is
    // killed.
    std::chrono::milliseconds look{500};
    std::chrono::milliseconds request_limit{10'000};  // long enough for a busy machine
    std::chrono::milliseconds await_limit{20'000};    // of Spawn, for a process that is up
  };

  // Returns at once; AwaitUp waits until a process is up. The calling process becomes the reaper of
  // its orphaned descendants.
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(Options options);
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start() { return Start(Options()); }
  // Ends the fork server and every worker with it. Does not wait for a process that is stuck.
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Waits until a process is up, as long as `limits` and Options::await_limit allow. UNAVAILABLE:
  // no process is up. RESOURCE_EXHAUSTED: the machine cannot fork.
  absl::StatusOr<SpawnedWorker> Spawn(const WorkerSetup& setup, const WorkLimits& limits = {})
      UOPD_EXCLUDES(mu_);
  // Waits until the worker has ended, at most `timeout`, and returns its status in waitpid's form.
  // DEADLINE_EXCEEDED: even SIGKILL does not end the worker (it is stuck in a driver); Reap may be
  // called again. UNAVAILABLE: the worker ended, and its status was lost with its fork server.
  absl::StatusOr<int> Reap(const SpawnedWorker& worker, std::chrono::milliseconds timeout);

  absl::Status AwaitUp(const WorkLimits& limits) UOPD_EXCLUDES(mu_);
  std::string Unready() const UOPD_EXCLUDES(mu_);  // why no worker can be had; empty: one can
  pid_t pid() const UOPD_EXCLUDES(mu_);            // -1: there is no process now
  uint64_t restarts() const UOPD_EXCLUDES(mu_);

 private:
  explicit ForkServer(Options options) : options_(std::move(options)) {}
  // Waits for a process that is up and is not `failed`.
  absl::StatusOr<std::shared_ptr<ForkProcess>> Up(const WorkLimits& limits,
                                                  const ForkProcess* failed) UOPD_EXCLUDES(mu_);
  void Keep() UOPD_EXCLUDES(mu_);  // runs on the keeper thread
  void Publish(std::shared_ptr<ForkProcess> process, absl::Status state) UOPD_EXCLUDES(mu_);
  // True: the time is over. False: the keeper must stop.
  bool Pause(std::chrono::milliseconds time) UOPD_EXCLUDES(mu_);

  const Options options_;
  UniqueFd stop_;  // an eventfd: readable when the keeper must end
  mutable Mutex mu_;
  std::condition_variable changed_;
  std::shared_ptr<ForkProcess> process_ UOPD_GUARDED_BY(mu_);  // null: no process is up
  absl::Status state_ UOPD_GUARDED_BY(mu_) =
      absl::UnavailableError("the fork server of the workers is starting");
  uint64_t restarts_ UOPD_GUARDED_BY(mu_) = 0;
  // The thread that starts the processes. A process that asks for a signal at its parent's death
  // gets it when this thread ends, so the thread lives as long as the ForkServer.
  std::thread keeper_;
};

}  // namespace uopd::worker
