// SPDX-License-Identifier: MIT
// The daemon's hold on its fork server (fork_loop.h), which forks the workers: started, watched and
// replaced.
//
//            hello                   died, or was stopped and then killed
//   starting ──────► up ───────────────────────────────────────────────────┐
//      ▲                                                                    ▼
//      └──────────── at once; after a pause when it never came up ──────── away
//
// The process is this program once more, started by posix_spawn, which is safe in a process with
// threads. When it ends, however it ends, its workers end with it, and another one takes its place;
// meanwhile Spawn waits and Unready says why. It and its workers are one process group, by which
// what it leaves behind is found: none stays a zombie, since the daemon adopts orphans.
//
// No request to it waits without end: one that is stopped, or that takes longer than
// Options::request_limit, is killed and replaced.
//
// Thread-safe. Owned by main, outlives every Supervisor.
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
#include "server/worker/frame_channel.h"
#include "server/worker/worker_process.h"

namespace uopd::worker {

class ForkProcess;

// A worker as its supervisor holds it.
struct SpawnedWorker {
  pid_t pid = -1;
  UniqueFd pidfd;   // readable once the process ended; pidfd_send_signal cannot hit another one
  UniqueFd socket;  // our end
  std::shared_ptr<ForkProcess> parent;
};

class ForkServer {
 public:
  struct Options {
    std::string program = "/proc/self/exe";  // calls BecomeForkServer first
    // How often it is looked whether the process is stopped: one that is so at two looks is killed.
    std::chrono::milliseconds look{500};
    std::chrono::milliseconds request_limit{10'000};  // for a machine that is busy
    std::chrono::milliseconds await_limit{20'000};    // of Spawn, for a process that is up
  };

  // Returns at once; AwaitUp waits until there is a process. The calling process becomes the reaper
  // of orphans below it.
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start(Options options);
  static absl::StatusOr<std::unique_ptr<ForkServer>> Start() { return Start(Options()); }
  // Ends the fork server and with it every worker. Does not wait for a process that is stuck.
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  // Waits for a process that is up, until patience or Options::await_limit ends. UNAVAILABLE: there
  // is none. RESOURCE_EXHAUSTED: the machine cannot fork.
  absl::StatusOr<SpawnedWorker> Spawn(const WorkerSetup& setup, const Patience& patience = {})
      UOPD_EXCLUDES(mu_);
  // Waits until the worker ended, at most `timeout`, and returns its status as waitpid gives it.
  // DEADLINE_EXCEEDED for one that even SIGKILL does not end (stuck in a driver); it may be asked
  // again. UNAVAILABLE: it ended, and its status went with its fork server.
  absl::StatusOr<int> Reap(const SpawnedWorker& worker, std::chrono::milliseconds timeout);

  absl::Status AwaitUp(const Patience& patience) UOPD_EXCLUDES(mu_);
  std::string Unready() const UOPD_EXCLUDES(mu_);  // why no worker can be had; empty: one can
  pid_t pid() const UOPD_EXCLUDES(mu_);            // -1: there is none now
  uint64_t restarts() const UOPD_EXCLUDES(mu_);

 private:
  explicit ForkServer(Options options) : options_(std::move(options)) {}
  // Waits for a process that is not `failed`.
  absl::StatusOr<std::shared_ptr<ForkProcess>> Up(const Patience& patience,
                                                  const ForkProcess* failed) UOPD_EXCLUDES(mu_);
  void Keep() UOPD_EXCLUDES(mu_);  // the keeper thread
  void Publish(std::shared_ptr<ForkProcess> process, absl::Status state) UOPD_EXCLUDES(mu_);
  // True when the time is over, false when the server shall stop.
  bool Pause(std::chrono::milliseconds time) UOPD_EXCLUDES(mu_);

  const Options options_;
  UniqueFd stop_;  // an eventfd: readable when the keeper shall end
  mutable Mutex mu_;
  std::condition_variable changed_;
  std::shared_ptr<ForkProcess> process_ UOPD_GUARDED_BY(mu_);  // null: none is up
  absl::Status state_ UOPD_GUARDED_BY(mu_) =
      absl::UnavailableError("the fork server of the workers is starting");
  uint64_t restarts_ UOPD_GUARDED_BY(mu_) = 0;
  // Starts the processes, since a process that asks for a signal at its parent's death gets it when
  // that thread ends.
  std::thread keeper_;
};

}  // namespace uopd::worker
