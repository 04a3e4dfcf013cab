// SPDX-License-Identifier: MIT
#include "server/worker/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/strings/cord.h"
#include "core/base/pidfd.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "server/worker/fork/process_state.h"

namespace uopd::worker {
namespace {

constexpr char kJobsFaultPayload[] = "uopd/jobs-fault";
constexpr int kMaxOffers = 8;  // attempts with workers that turn out to be dead or stopped

bool Ended(const SpawnedWorker& process) {
  pollfd fd{process.pidfd.get(), POLLIN, 0};
  return poll(&fd, 1, 0) > 0;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? Cat("SIG", name) : Cat("signal ", signal);
}

// Signals that code causes by what it does. All other signals come from outside.
bool IsOwnDoing(int signal) {
  switch (signal) {
    case SIGSEGV:
    case SIGILL:
    case SIGBUS:
    case SIGFPE:
    case SIGABRT:
    case SIGTRAP:
    case SIGSYS:
    case SIGXCPU:
    case SIGXFSZ:
      return true;
    default:
      return false;
  }
}

// Number of processes that the kernel has killed since the machine started, to free memory.
uint64_t CountOutOfMemory() {
  std::ifstream in("/proc/vmstat");
  uint64_t value = 0;
  for (std::string name; in >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

int64_t Now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

}  // namespace

absl::StatusOr<std::string> JobResult::ToStatusOr() && {
  if (outcome == kDone) return std::move(bytes);
  if (jobs_fault()) status.SetPayload(kJobsFaultPayload, absl::Cord());
  return std::move(status);
}

bool IsJobsFault(const absl::Status& status) {
  return status.GetPayload(kJobsFaultPayload).has_value();
}

Digest JobDigest(const Job& job) {
  Hasher hasher;
  hasher.Update(job.name);
  hasher.Update(std::string_view("\0", 1));
  hasher.Update(job.identity.empty() ? job.payload : job.identity);
  return hasher.Finish();
}

Supervisor::Supervisor(ForkServer& forks, Options options)
    : forks_(forks), options_(std::move(options)), quarantine_(options_.max_quarantine) {
  UOPD_CHECK(options_.max_workers >= 1);
  MemoryRanOut();
}

Supervisor::~Supervisor() { EndIdle(); }

void Supervisor::EndIdle() {
  std::vector<WorkerPtr> idle;
  {
    MutexLock lock(mu_);
    idle.swap(idle_);
  }
  for (WorkerPtr& worker : idle) End(std::move(worker), true);
}

absl::StatusOr<Supervisor::WorkerPtr> Supervisor::Take(const WorkLimits& limits) {
  for (;;) {
    UOPD_TRY(CheckWait(limits));  // without the lock, because `cancelled` is the caller's code
    WorkerPtr found;
    {
      MutexLock lock(mu_);
      const bool free = lock.WaitUntil(freed_, limits.NextCheck(), [&]() UOPD_REQUIRES(mu_) {
        return !idle_.empty() || stats_.workers < options_.max_workers;
      });
      if (!free) continue;
      if (idle_.empty()) {
        ++stats_.workers;
      } else {
        found = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (found == nullptr) break;
    if (!Ended(found->process)) return found;
    UOPD_LOG(kWarn, "an idle worker died", {"pid", found->process.pid});
    End(std::move(found), false);
    MutexLock lock(mu_);
    ++stats_.lost_idle;
  }
  auto process = forks_.Spawn(options_.setup, limits);
  MutexLock lock(mu_);
  if (!process.ok()) {
    --stats_.workers;
    freed_.notify_one();
    return process.status();
  }
  ++stats_.spawned;
  auto worker = std::make_unique<Worker>();
  worker->process = *std::move(process);
  worker->channel = FrameChannel(std::move(worker->process.socket));
  worker->channel.WatchProcess(worker->process.pidfd.get());
  return worker;
}

void Supervisor::GiveBack(WorkerPtr worker) {
  MutexLock lock(mu_);
  idle_.push_back(std::move(worker));
  freed_.notify_one();
}

Supervisor::Ending Supervisor::End(WorkerPtr worker, bool kill) {
  worker->channel = FrameChannel();  // closing the socket ends an idle worker
  Ending out;
  absl::StatusOr<int> status = absl::DeadlineExceededError("");
  if (!kill) status = forks_.Reap(worker->process, options_.exit_limit);
  if (absl::IsDeadlineExceeded(status.status())) {
    out.killed = true;
    pidfd_send_signal(worker->process.pidfd.get(), SIGKILL, nullptr, 0);
    status = forks_.Reap(worker->process, kKillTimeout);
  }
  MutexLock lock(mu_);
  if (absl::IsDeadlineExceeded(status.status())) {
    ++stats_.stuck;
    UOPD_LOG(kError, "a worker cannot be reaped", {"pid", worker->process.pid},
             {"error", status.status()});
  }
  --stats_.workers;
  freed_.notify_one();
  out.known = status.ok();
  if (out.known) out.status = *status;
  return out;
}

absl::Status Supervisor::Offer(Worker& worker, const std::string& frame,
                               const WorkLimits& limits) const {
  StopWatch watch(worker.process.pid, options_.look);
  WorkLimits offering = limits.Or([&] { return watch.SeesStopped(); });
  offering.deadline = std::min(limits.deadline, WorkLimits::Clock::now() + options_.offer_limit);
  absl::Status status = worker.channel.Send(frame, offering);
  if (status.ok()) {
    auto accepted = worker.channel.Receive(offering, 16);
    if (accepted.ok() && *accepted == std::string_view(&kAccepted, 1)) return absl::OkStatus();
    status = accepted.ok() ? absl::DataLossError("not a reply of a worker") : accepted.status();
  }
  UOPD_TRY(CheckWait(limits));
  return absl::UnavailableError(Cat("a worker did not accept its job: ", StatusText(status)));
}

absl::StatusOr<Supervisor::WorkerPtr> Supervisor::HandOver(const std::string& frame,
                                                           const WorkLimits& limits) {
  absl::Status last;
  for (int offer = 0; offer < kMaxOffers; ++offer) {
    UOPD_ASSIGN(WorkerPtr worker, Take(limits));
    last = Offer(*worker, frame, limits);
    if (last.ok()) return worker;
    End(std::move(worker), true);
    if (!absl::IsUnavailable(last)) break;
    MutexLock lock(mu_);
    ++stats_.lost_idle;
  }
  return last;
}

JobResult Supervisor::GaveUp(absl::Status why) {
  JobResult result;
  result.outcome = absl::IsCancelled(why)          ? JobResult::kCancelled
                   : absl::IsDeadlineExceeded(why) ? JobResult::kTimedOut
                                                   : JobResult::kFailed;
  result.status = std::move(why);
  return result;
}

void Supervisor::Blame(const Job& job, const Digest& digest, bool passing, JobResult& result) {
  QuarantineEntry entry{digest, Cat(job.name, ": ", StatusText(result.status)), Now()};
  if (passing) entry.life = kPassing;
  quarantine_.Add(entry);
  result.quarantined = true;
  result.passing = passing;
  UOPD_LOG(kWarn, "a job killed its worker", {"job", job.name}, {"digest", digest.Hex()},
           {"reason", entry.reason}, {"passing", passing});
  if (options_.on_kill) options_.on_kill();
  if (options_.on_quarantine) options_.on_quarantine(entry);
}

void Supervisor::Condemn(const Job& job, const absl::Status& why) {
  const QuarantineEntry entry{JobDigest(job), Cat(job.name, ": ", StatusText(why)), Now()};
  if (quarantine_.Find(entry.job)) return;
  quarantine_.Add(entry);
  UOPD_LOG(kWarn, "a job gave a wrong answer", {"job", job.name}, {"digest", entry.job.Hex()},
           {"reason", entry.reason});
  if (options_.on_quarantine) options_.on_quarantine(entry);
}

bool Supervisor::MemoryRanOut() {
  const uint64_t count = options_.out_of_memory ? options_.out_of_memory() : CountOutOfMemory();
  MutexLock lock(mu_);
  return std::exchange(out_of_memory_, count) != count;
}

Supervisor::Attempt Supervisor::Judge(const absl::Status& why, const Ending& ending) {
  Attempt out;
  out.result.outcome = JobResult::kCrashed;
  out.fault = Fault::kJobs;
  std::string how = StatusText(why);
  if (!ending.killed) {
    if (!ending.known) {
      out.fault = Fault::kForkServers;  // the fork server ended, and its workers with it
    } else if (WIFSIGNALED(ending.status)) {
      out.result.signal = WTERMSIG(ending.status);
      if (!IsOwnDoing(out.result.signal)) out.fault = Fault::kOutside;
      how = SignalName(out.result.signal);
    } else {
      how = Cat("exit code ", WEXITSTATUS(ending.status));
    }
  }
  const char* who = out.fault == Fault::kJobs ? "job killed its worker"
                                              : "something outside killed the worker of the job";
  out.result.status = absl::AbortedError(Cat(who, " (", how, ")"));
  return out;
}

Supervisor::Attempt Supervisor::Finish(WorkerPtr worker, const Job& job, const WorkLimits& limits) {
  const auto limit = WorkLimits::Clock::now() + job.time_limit;
  const pid_t pid = worker->process.pid;
  StopWatch watch(pid, options_.look);
  bool stopped = false;
  WorkLimits running = limits.Or([&] { return stopped = watch.SeesStopped(); });
  running.deadline = std::min(limits.deadline, limit);
  auto frame = worker->channel.Receive(running, options_.max_answer_bytes);
  absl::StatusOr<JobAnswer> answer =
      frame.ok() ? DecodeAnswer(*frame) : absl::StatusOr<JobAnswer>(frame.status());

  if (answer.ok()) {
    if (answer->last) {
      End(std::move(worker), false);
      MutexLock lock(mu_);
      ++stats_.retired;
    } else {
      GiveBack(std::move(worker));
    }
    Attempt out;
    if (answer->result.ok()) {
      out.result.bytes = *std::move(answer->result);
    } else if (answer->broke) {
      out.fault = Fault::kJobs;
      out.result.outcome = JobResult::kCrashed;
      out.result.status =
          absl::AbortedError(Cat("job broke its worker: ", StatusText(answer->result.status())));
    } else {
      out.result.outcome = JobResult::kFailed;
      out.result.status = answer->result.status();
    }
    return out;
  }
  const bool late = absl::IsDeadlineExceeded(answer.status());
  stopped = stopped || (late && IsStopped(pid));
  // If the stream has ended, the worker is ending. Its own status says more than our SIGKILL would.
  const Ending ending = End(std::move(worker), !absl::IsUnavailable(answer.status()));
  if (!late && !absl::IsCancelled(answer.status())) return Judge(answer.status(), ending);
  if (late ? limits.deadline <= limit : !stopped) return {GaveUp(answer.status())};
  Attempt out;
  if (stopped) {
    out.fault = Fault::kOutside;
    out.result.outcome = JobResult::kCrashed;
    out.result.status = absl::AbortedError("something outside stopped the worker of the job");
  } else {
    out.fault = Fault::kJobs;
    out.result.outcome = JobResult::kTimedOut;
    out.result.status = absl::DeadlineExceededError(
        Cat("job ran over its time limit (", job.time_limit.count(), " ms)"));
  }
  return out;
}

void Supervisor::CountLost(const Job& job, const absl::Status& why) {
  {
    MutexLock lock(mu_);
    ++stats_.lost_busy;
  }
  UOPD_LOG(kWarn, "a worker was lost in a job", {"job", job.name}, {"why", why});
  if (options_.on_lost) options_.on_lost();
}

void Supervisor::Count(const JobResult& result) {
  MutexLock lock(mu_);
  switch (result.outcome) {
    case JobResult::kDone:
      ++stats_.done;
      break;
    case JobResult::kFailed:
      ++(result.refused ? stats_.refused : stats_.failed);
      break;
    case JobResult::kCrashed:
      ++stats_.crashed;
      break;
    case JobResult::kTimedOut:
      ++stats_.timed_out;
      break;
    case JobResult::kCancelled:
      ++stats_.cancelled;
      break;
  }
}

JobResult Supervisor::RunJob(const Job& job, const Digest& digest, const WorkLimits& limits) {
  JobResult result;
  auto entry = quarantine_.Find(digest);
  if (!entry && options_.look_up) {
    entry = options_.look_up(digest);
    if (entry) quarantine_.Add(*entry);
  }
  if (entry) {
    result = GaveUp(absl::FailedPreconditionError(Cat("job is in quarantine: ", entry->reason)));
    result.refused = true;
    result.passing = entry->passing();
    return result;
  }
  const std::string frame = EncodeJob(job.name, job.payload);
  int outside = 0, out_of_memory = 0;
  for (int attempts = 0; attempts < kMaxAttempts; ++attempts) {
    auto worker = HandOver(frame, limits);
    if (!worker.ok()) {
      result = GaveUp(worker.status());
      result.no_worker = result.outcome == JobResult::kFailed;
      return result;
    }
    Attempt attempt = Finish(*std::move(worker), job, limits);
    result = std::move(attempt.result);
    if (attempt.fault == Fault::kJobs) Blame(job, digest, false, result);
    if (attempt.fault == Fault::kJobs || attempt.fault == Fault::kNobodys) return result;
    CountLost(job, result.status);
    if (attempt.fault == Fault::kForkServers) continue;
    ++outside;
    if (result.signal == SIGKILL && MemoryRanOut()) ++out_of_memory;
    if (outside < kMaxOutside && out_of_memory < kMaxOutOfMemory) continue;
    Blame(job, digest, true, result);
    return result;
  }
  result = GaveUp(absl::UnavailableError("the workers of the job end again and again"));
  result.no_worker = true;
  return result;
}

JobResult Supervisor::Run(const Job& job, const WorkLimits& limits) {
  JobResult result = RunJob(job, JobDigest(job), limits);
  Count(result);
  return result;
}

SupervisorStats Supervisor::stats() const {
  MutexLock lock(mu_);
  SupervisorStats out = stats_;
  out.idle = static_cast<int>(idle_.size());
  return out;
}

}  // namespace uopd::worker
