// SPDX-License-Identifier: MIT
// A pool of worker processes and the only way to run a job in one.
//
// A worker, as the supervisor sees it:
//
//             job sent          "accepted"
//   Idle ───────────────► Offered ──────────► Running
//    ▲ │                     │                  │  │
//    │ │ died unasked        │ died, stopped    │  │ its own doing: Crashed, TimedOut
//    │ │                     │ or too slow: the │  │ something outside: the job runs again
//    │ │                     │ job goes to      │  │ caller left: Cancelled
//    │ ▼                     ▼ another          │  ▼
//    │ Dead ◄────────────────┴──────────────────┼─ Killed (SIGKILL, then reaped)
//    └──────────────────────────────────────────┘
//                 answer: Done or Failed (an answer marked last retires the worker: Dead)
//
//   Idle     in idle_; alive as far as is known; no Run owns it
//   Offered  owned by one Run, which knows that the job has not begun
//   Running  owned by one Run
//   Dead     reaped, or given up after kKillTimeout; its place is free for a new worker
//
// Who caused the end of a running worker (docs/tuning.md has the table):
//
//   the job      signals that code raises by itself (SIGSEGV, SIGABRT, ...), an exit, a malformed
//                answer, or its own time limit. The job is put in quarantine and refused from then
//                on.
//   outside      SIGKILL and all other signals, being stopped, or the end of the fork server. The
//                job runs again in another worker. If this repeats, the job is refused for a
//                limited time: after the second SIGKILL while the machine runs out of memory,
//                otherwise after kMaxOutside such ends.
//   the caller   its deadline or cancellation kills the worker. Nobody is blamed.
//
// Thread-safe. Run does all its work on its caller's thread, which it blocks; there are no other
// threads. REQUIRES: the fork server outlives the supervisor, and no Run is left at its
// destruction.
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
#include "core/base/work_limits.h"
#include "server/worker/fork/fork_server.h"
#include "server/worker/frame_channel.h"
#include "server/worker/quarantine.h"

namespace uopd::worker {

struct Job {
  std::string name;                              // of a JobHandler
  std::string payload;                           // deterministic
  std::chrono::milliseconds time_limit{30'000};  // from "accepted" to the answer
  // What of the payload the quarantine knows the job by: jobs of one name with equal identities are
  // refused together. Empty: the whole payload.
  std::string identity{};
};
// The job's name in the quarantine.
Digest JobDigest(const Job& job);

struct JobResult {
  enum Outcome : uint8_t { kDone, kFailed, kCrashed, kTimedOut, kCancelled };

  Outcome outcome = kDone;
  std::string bytes;  // kDone
  // What went wrong if not kDone, for people and for the wire. kFailed: the handler's status.
  // kCrashed: ABORTED. kTimedOut: DEADLINE_EXCEEDED.
  absl::Status status;
  int signal = 0;            // kCrashed: the signal that killed the worker; 0: it exited
  bool refused = false;      // kFailed: in quarantine, not run
  bool quarantined = false;  // this run put the job there
  // With `refused` or `quarantined`: only for a limited time, since the cause may be outside.
  bool passing = false;
  bool no_worker = false;  // kFailed: no worker could be had, not run

  // Whether the job itself ended or held its worker, in this run or in the one that put it in
  // quarantine.
  bool jobs_fault() const { return (quarantined || refused) && !passing; }

  // IsJobsFault of the status is jobs_fault().
  absl::StatusOr<std::string> ToStatusOr() &&;
};
// The code of such a status does not tell: it is that of a caller's deadline, or of a worker that
// something outside ended.
bool IsJobsFault(const absl::Status& status);

struct SupervisorStats {
  uint64_t spawned = 0;
  uint64_t done = 0, failed = 0, crashed = 0, timed_out = 0, cancelled = 0, refused = 0;
  uint64_t retired = 0;    // ended by themselves: job count or memory
  uint64_t lost_idle = 0;  // found dead or stopped before they accepted a job
  uint64_t lost_busy = 0;  // ended during a job by something outside
  uint64_t stuck = 0;      // still alive after SIGKILL
  int workers = 0;         // now
  int idle = 0;            // of those
};

class Supervisor {
 public:
  static constexpr std::chrono::milliseconds kKillTimeout{5'000};  // limit to end after SIGKILL
  static constexpr int kMaxOutside = 30;                           // deaths of one job from outside
  static constexpr int kMaxOutOfMemory = 2;                        // of those, while memory ran out
  static constexpr int kMaxAttempts = 60;                          // with the ends of fork servers
  static constexpr std::chrono::seconds kPassing{300};  // life of an entry that may be unjust

  struct Options {
    int max_workers = 1;
    WorkerSetup setup;
    size_t max_quarantine = 4096;
    size_t max_answer_bytes = size_t{1} << 30;
    // Interval of the checks whether a worker that does not answer is stopped. Two checks decide.
    std::chrono::milliseconds look{500};
    std::chrono::milliseconds offer_limit{10'000};  // to accept a job: it may wait for a busy CPU
    std::chrono::milliseconds exit_limit{2'000};    // to end by itself after its socket is closed
    // Whether somebody else put a job into quarantine that is not in this one; asked for every job.
    // May be null.
    std::function<std::optional<QuarantineEntry>(const Digest&)> look_up;
    // Called for every new entry, on the thread of Run or Condemn, without holding a lock. May be
    // null.
    std::function<void(const QuarantineEntry&)> on_quarantine;
    // The same, for every job that killed its worker.
    std::function<void()> on_kill;
    // The same, for every worker that something outside ended during a job.
    std::function<void()> on_lost;
    // Returns how often the machine has run out of memory so far. Null: the kernel's count is used.
    std::function<uint64_t()> out_of_memory;
  };

  Supervisor(ForkServer& forks, Options options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Waits for a worker, runs the job in it and waits for the answer, all within `limits`.
  JobResult Run(const Job& job, const WorkLimits& limits = {}) UOPD_EXCLUDES(mu_);

  // Puts a job into quarantine that killed no worker: its answer turned out to be wrong.
  void Condemn(const Job& job, const absl::Status& why);

  // Ends the workers that are idle now. The next job starts a new one.
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

  // How a worker ended.
  struct Ending {
    bool killed = false;  // by this supervisor
    bool known = false;   // whether `status` is known
    int status = 0;       // in waitpid's form
  };
  // The result of one run of a job. If there is no answer, Fault says who caused that.
  enum class Fault : uint8_t { kNobodys, kJobs, kOutside, kForkServers };
  struct Attempt {
    JobResult result;
    Fault fault = Fault::kNobodys;
  };

  absl::StatusOr<WorkerPtr> Take(const WorkLimits& limits) UOPD_EXCLUDES(mu_);
  void GiveBack(WorkerPtr worker) UOPD_EXCLUDES(mu_);
  // Kills the worker if `kill`, reaps it, and frees its place.
  Ending End(WorkerPtr worker, bool kill) UOPD_EXCLUDES(mu_);
  // Returns a worker that has accepted the job.
  absl::StatusOr<WorkerPtr> HandOver(const std::string& frame, const WorkLimits& limits)
      UOPD_EXCLUDES(mu_);
  // State Offered. OK: the worker accepted the job. UNAVAILABLE: the worker is dead, stopped or
  // slow.
  absl::Status Offer(Worker& worker, const std::string& frame, const WorkLimits& limits) const;
  // State Running, until its end.
  Attempt Finish(WorkerPtr worker, const Job& job, const WorkLimits& limits) UOPD_EXCLUDES(mu_);
  static Attempt Judge(const absl::Status& why, const Ending& ending);
  JobResult RunJob(const Job& job, const Digest& digest, const WorkLimits& limits)
      UOPD_EXCLUDES(mu_);
  // Whether memory ran out since the last call by any thread.
  bool MemoryRanOut() UOPD_EXCLUDES(mu_);
  static JobResult GaveUp(absl::Status why);
  void Blame(const Job& job, const Digest& digest, bool passing, JobResult& result);
  void CountLost(const Job& job, const absl::Status& why) UOPD_EXCLUDES(mu_);
  void Count(const JobResult& result) UOPD_EXCLUDES(mu_);

  ForkServer& forks_;
  const Options options_;
  Quarantine quarantine_;
  mutable Mutex mu_;
  std::condition_variable freed_;                     // a worker became idle, or a place free
  std::vector<WorkerPtr> idle_ UOPD_GUARDED_BY(mu_);  // most recently used last: caches are warm
  SupervisorStats stats_ UOPD_GUARDED_BY(mu_);
  uint64_t out_of_memory_ UOPD_GUARDED_BY(mu_) = 0;  // the count at the last call
};

}  // namespace uopd::worker
