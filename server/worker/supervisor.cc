// SPDX-License-Identifier: MIT
#include "server/worker/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <string.h>

#include <sys/wait.h>

#include <algorithm>

#include "core/base/log.h"
#include "core/base/text.h"
#include "server/worker/pidfd.h"

namespace uopd::worker {
namespace {

constexpr int kMaxOffers = 3;  // to workers that turn out to be dead

bool Ended(const SpawnedWorker& process) {
  pollfd fd{process.pidfd.get(), POLLIN, 0};
  return poll(&fd, 1, 0) > 0;
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? Cat("SIG", name) : Cat("signal ", signal);
}

}  // namespace

Digest JobDigest(const Job& job) {
  Hasher hasher;
  hasher.Update(job.name);
  hasher.Update(std::string_view("\0", 1));
  hasher.Update(job.payload);
  return hasher.Finish();
}

Supervisor::Supervisor(ForkServer& forks, Options options)
    : forks_(forks), options_(std::move(options)), quarantine_(options_.max_quarantine) {
  UOPD_CHECK(options_.max_workers >= 1);
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

absl::StatusOr<Supervisor::WorkerPtr> Supervisor::Take(const Patience& patience) {
  for (;;) {
    UOPD_TRY(patience.Check());  // without the lock: `cancelled` is the caller's code
    WorkerPtr found;
    {
      MutexLock lock(mu_);
      const auto until =
          std::min(patience.deadline, Patience::Clock::now() + Patience::kCancelPoll);
      const bool free = lock.WaitUntil(freed_, until, [&]() UOPD_REQUIRES(mu_) {
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
  auto process = forks_.Spawn(options_.setup);
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

int Supervisor::End(WorkerPtr worker, bool kill) {
  worker->channel = FrameChannel();  // an idle worker ends by itself now
  if (kill) pidfd_send_signal(worker->process.pidfd.get(), SIGKILL, nullptr, 0);
  auto status = forks_.Reap(worker->process, kill ? kKillTimeout : kExitTimeout);
  if (!kill && absl::IsDeadlineExceeded(status.status())) {
    pidfd_send_signal(worker->process.pidfd.get(), SIGKILL, nullptr, 0);
    status = forks_.Reap(worker->process, kKillTimeout);
  }
  MutexLock lock(mu_);
  if (!status.ok()) {
    ++stats_.stuck;
    UOPD_LOG(kError, "a worker cannot be reaped", {"pid", worker->process.pid},
             {"error", status.status()});
  }
  --stats_.workers;
  freed_.notify_one();
  return status.ok() ? *status : -1;
}

absl::Status Supervisor::Offer(Worker& worker, const std::string& frame, const Patience& patience) {
  UOPD_TRY(worker.channel.Send(frame, patience));
  UOPD_ASSIGN(const std::string accepted, worker.channel.Receive(patience, 16));
  if (accepted != std::string_view(&kAccepted, 1)) {
    return absl::UnavailableError("a worker did not accept its job");
  }
  return absl::OkStatus();
}

JobResult Supervisor::GaveUp(absl::Status why) {
  JobResult result;
  result.outcome = absl::IsCancelled(why)          ? JobResult::kCancelled
                   : absl::IsDeadlineExceeded(why) ? JobResult::kTimedOut
                                                   : JobResult::kFailed;
  result.status = std::move(why);
  return result;
}

void Supervisor::Blame(const Job& job, const Digest& digest, JobResult& result) {
  const QuarantineEntry entry{digest, Cat(job.name, ": ", StatusText(result.status))};
  quarantine_.Add(entry);
  result.quarantined = true;
  UOPD_LOG(kWarn, "a job killed its worker", {"job", job.name}, {"digest", digest.Hex()},
           {"reason", entry.reason});
  if (options_.on_quarantine) options_.on_quarantine(entry);
}

JobResult Supervisor::Finish(WorkerPtr worker, const Job& job, const Digest& digest,
                             const Patience& patience) {
  Patience running = patience;
  const auto limit = Patience::Clock::now() + job.time_limit;
  running.deadline = std::min(patience.deadline, limit);
  auto frame = worker->channel.Receive(running, options_.max_answer_bytes);
  absl::StatusOr<JobAnswer> answer =
      frame.ok() ? DecodeAnswer(*frame) : absl::StatusOr<JobAnswer>(frame.status());

  JobResult result;
  if (answer.ok()) {
    if (answer->last) {
      End(std::move(worker), false);
      MutexLock lock(mu_);
      ++stats_.retired;
    } else {
      GiveBack(std::move(worker));
    }
    if (answer->result.ok()) {
      result.bytes = *std::move(answer->result);
    } else {
      result.outcome = JobResult::kFailed;
      result.status = answer->result.status();
    }
    return result;
  }
  // A worker whose stream ended is ending: its own status says more than our SIGKILL would.
  const bool kill = !absl::IsUnavailable(answer.status());
  const int status = End(std::move(worker), kill);
  if (absl::IsCancelled(answer.status()) ||
      (absl::IsDeadlineExceeded(answer.status()) && patience.deadline <= limit)) {
    return GaveUp(answer.status());
  }
  if (absl::IsDeadlineExceeded(answer.status())) {
    result.outcome = JobResult::kTimedOut;
    result.status = absl::DeadlineExceededError(
        Cat("job ran over its time limit (", job.time_limit.count(), " ms)"));
  } else {
    result.outcome = JobResult::kCrashed;
    std::string how = StatusText(answer.status());
    if (!kill && status != -1 && WIFSIGNALED(status)) {
      result.signal = WTERMSIG(status);
      how = SignalName(result.signal);
    } else if (!kill && status != -1) {
      how = Cat("exit code ", WEXITSTATUS(status));
    }
    result.status = absl::AbortedError(Cat("job killed its worker (", how, ")"));
  }
  Blame(job, digest, result);
  return result;
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

JobResult Supervisor::Run(const Job& job, std::chrono::steady_clock::time_point deadline,
                          const std::function<bool()>& cancelled) {
  const Patience patience{deadline, &cancelled};
  const Digest digest = JobDigest(job);
  JobResult result;
  if (const auto reason = quarantine_.ReasonOf(digest)) {
    result = GaveUp(absl::FailedPreconditionError(Cat("job is in quarantine: ", *reason)));
    result.refused = true;
    Count(result);
    return result;
  }
  const std::string frame = EncodeJob(job.name, job.payload);
  absl::Status last;
  for (int offer = 0; offer < kMaxOffers; ++offer) {
    auto worker = Take(patience);
    if (!worker.ok()) {
      last = worker.status();
      break;
    }
    last = Offer(**worker, frame, patience);
    if (last.ok()) {
      result = Finish(*std::move(worker), job, digest, patience);
      Count(result);
      return result;
    }
    End(*std::move(worker), true);
    if (absl::IsCancelled(last) || absl::IsDeadlineExceeded(last)) break;
    MutexLock lock(mu_);
    ++stats_.lost_idle;
  }
  result = GaveUp(last);
  result.no_worker = result.outcome == JobResult::kFailed;
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
