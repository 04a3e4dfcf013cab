// SPDX-License-Identifier: MIT
// A pool of worker processes and the only way to run a job in one.
//
// A worker, as the supervisor sees it:
//
//             job sent          "accepted"
//   Idle ───────────────► Offered ──────────► Running
//    ▲ │                     │                  │  │
//    │ │ died unasked        │ died: the job    │  │ socket ended or a malformed frame: Crashed
//    │ │                     │ goes to another  │  │ time limit: TimedOut     caller left:
//    Cancelled │ ▼                     ▼                  │  ▼ │ Dead
//    ◄────────────────┴──────────────────┼─ Killed (SIGKILL, then reaped)
//    └──────────────────────────────────────────┘
//                 answer: Done or Failed (an answer marked last retires the worker: Dead)
//
//   Idle     in idle_; alive as far as anyone knows; belongs to nobody
//   Offered  belongs to one Run, which is sure that the job has not begun
//   Running  belongs to one Run; whatever ends it now is the job's doing
//   Dead     reaped, or given up on after kKillTimeout; its place is free for a new worker
//
// A job that crashed its worker or ran over its time limit is put in quarantine and refused from
// then on. A caller's deadline or cancellation kills the worker too and blames nobody.
//
// Thread-safe: Run blocks its caller's thread, which does all the work; there are no others.
// REQUIRES: the fork server outlives the supervisor, and no Run is left when it is destroyed.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/worker/fork_server.h"
#include "server/worker/frame_channel.h"
#include "server/worker/quarantine.h"

namespace uopd::worker {

struct Job {
  std::string name;     // of a JobHandler
  std::string payload;  // deterministic: its digest names the job in the quarantine
  std::chrono::milliseconds time_limit{30'000};  // from "accepted" to the answer
};
Digest JobDigest(const Job& job);

struct JobResult {
  enum Outcome : uint8_t { kDone, kFailed, kCrashed, kTimedOut, kCancelled };

  Outcome outcome = kDone;
  std::string bytes;         // kDone
  absl::Status status;       // what went wrong otherwise, for people and for the wire: kFailed the
                             // handler's, kCrashed ABORTED, kTimedOut DEADLINE_EXCEEDED
  int signal = 0;            // kCrashed: what killed the worker; 0 when it exited by itself
  bool refused = false;      // kFailed: in quarantine, not run
  bool quarantined = false;  // this run put the job there
  bool no_worker = false;    // kFailed: none could be had, not run

  absl::StatusOr<std::string> ToStatusOr() && {
    if (outcome == kDone) return std::move(bytes);
    return status;
  }
};

struct SupervisorStats {
  uint64_t spawned = 0;
  uint64_t done = 0, failed = 0, crashed = 0, timed_out = 0, cancelled = 0, refused = 0;
  uint64_t retired = 0;    // ended by their own will: job count or memory
  uint64_t lost_idle = 0;  // found dead before they accepted a job
  uint64_t stuck = 0;      // outlived SIGKILL
  int workers = 0;         // now
  int idle = 0;            // of those
};

class Supervisor {
 public:
  static constexpr std::chrono::milliseconds kExitTimeout{500};    // to end by itself
  static constexpr std::chrono::milliseconds kKillTimeout{5'000};  // to end after SIGKILL

  struct Options {
    int max_workers = 1;
    WorkerSetup setup;
    size_t max_quarantine = 4096;
    size_t max_answer_bytes = size_t{1} << 30;
    // Called on the thread of Run, without locks, for every new entry. May be null.
    std::function<void(const QuarantineEntry&)> on_quarantine;
  };

  Supervisor(ForkServer& forks, Options options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Waits for a worker, runs the job in it, waits for its answer: all until `deadline`, asking
  // `cancelled` (may be null) every few milliseconds.
  JobResult Run(
      const Job& job,
      std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max(),
      const std::function<bool()>& cancelled = nullptr) UOPD_EXCLUDES(mu_);

  // Ends the workers that are idle now; the next job starts one again.
  void EndIdle() UOPD_EXCLUDES(mu_);

  int max_workers() const { return options_.max_workers; }
  const WorkerSetup& setup() const { return options_.setup; }
  Quarantine& quarantine() { return quarantine_; }
  SupervisorStats stats() const UOPD_EXCLUDES(mu_);

 private:
  struct Worker {
    SpawnedWorker process;
    FrameChannel channel;
  };
  using WorkerPtr = std::unique_ptr<Worker>;

  absl::StatusOr<WorkerPtr> Take(const Patience& patience) UOPD_EXCLUDES(mu_);
  void GiveBack(WorkerPtr worker) UOPD_EXCLUDES(mu_);
  // Kills if need be, reaps, frees the place. The wait status; -1 when there is none.
  int End(WorkerPtr worker, bool kill) UOPD_EXCLUDES(mu_);
  // Offered: OK when the job was accepted, UNAVAILABLE when the worker was dead already.
  static absl::Status Offer(Worker& worker, const std::string& frame, const Patience& patience);
  // Running, to the end.
  JobResult Finish(WorkerPtr worker, const Job& job, const Digest& digest, const Patience& patience)
      UOPD_EXCLUDES(mu_);
  JobResult GaveUp(absl::Status why);
  void Blame(const Job& job, const Digest& digest, JobResult& result);
  void Count(const JobResult& result) UOPD_EXCLUDES(mu_);

  ForkServer& forks_;
  const Options options_;
  Quarantine quarantine_;
  mutable Mutex mu_;
  std::condition_variable freed_;                     // a worker became idle, or a place free
  std::vector<WorkerPtr> idle_ UOPD_GUARDED_BY(mu_);  // most recently used last: caches are warm
  SupervisorStats stats_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::worker
