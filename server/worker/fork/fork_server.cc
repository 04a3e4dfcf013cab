// SPDX-License-Identifier: MIT
#include "server/worker/fork/fork_server.h"

#include <poll.h>
#include <signal.h>

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/worker/fork/fork_process.h"

namespace uopd::worker {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kFirstPause{20}, kLongestPause{1'000};  // after one that never came up
// How long to wait until processes that got SIGKILL have ended. A process that waits for a disk
// ends only after the disk has answered. A restart goes on without this process. The end of the
// daemon waits longer, since nobody takes the status of the process afterwards (run_daemon.cc
// limits the whole end).
constexpr milliseconds kBuryLimit{2'000}, kLastBuryLimit{20'000};

}  // namespace

absl::StatusOr<std::unique_ptr<ForkServer>> ForkServer::Start(Options options) {
  std::unique_ptr<ForkServer> out(new ForkServer(std::move(options)));
  out->stop_.Reset(eventfd(0, EFD_CLOEXEC));
  if (!out->stop_) {
    return absl::ResourceExhaustedError(Cat("eventfd: ", std::strerror(errno)));
  }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  signal(SIGCHLD, SIG_DFL);  // an ignored SIGCHLD would discard our children's statuses
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the caller's threads handle the signals
  out->keeper_ = std::thread([server = out.get()] { server->Keep(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return out;
}

ForkServer::~ForkServer() {
  eventfd_write(stop_.get(), 1);
  keeper_.join();
}

void ForkServer::Publish(std::shared_ptr<ForkProcess> process, absl::Status state) {
  MutexLock lock(mu_);
  process_ = std::move(process);
  state_ = std::move(state);
  changed_.notify_all();
}

bool ForkServer::Pause(milliseconds time) {
  pollfd fd{stop_.get(), POLLIN, 0};
  return poll(&fd, 1, static_cast<int>(time.count())) <= 0;
}

void ForkServer::Keep() {
  milliseconds pause{0};
  for (;;) {
    absl::Status why;
    bool up = false;
    std::string how;
    auto process = ForkProcess::Launch(options_.program, {options_.look, options_.request_limit});
    if (process.ok()) {
      why = (*process)->AwaitHello(stop_.get());
      up = why.ok();
      if (up) {
        Publish(*process, absl::OkStatus());
        why = (*process)->Watch(stop_.get());
      }
      Publish(nullptr,
              absl::UnavailableError("the fork server of the workers ended and is started again"));
      how = (*process)->Bury(absl::IsCancelled(why) ? kLastBuryLimit : kBuryLimit);
    } else {
      why = process.status();
      Publish(nullptr, why);
    }
    if (absl::IsCancelled(why)) return;
    metrics::ForkServerRestarts().Increment();
    UOPD_LOG(kError, "the fork server of the workers is started again",
             {"ended", process.ok() ? how : StatusText(why)});
    {
      MutexLock lock(mu_);
      ++restarts_;
    }
    pause = up ? milliseconds(0) : std::clamp(2 * pause, kFirstPause, kLongestPause);
    if (!Pause(pause)) return;
  }
}

absl::StatusOr<std::shared_ptr<ForkProcess>> ForkServer::Up(const WorkLimits& limits,
                                                            const ForkProcess* failed) {
  const auto limit = Clock::now() + options_.await_limit;
  for (;;) {
    UOPD_TRY(CheckWait(limits));  // without the lock, because `cancelled` is the caller's code
    MutexLock lock(mu_);
    const auto now = Clock::now();
    if (now >= limit) return absl::UnavailableError(Cat("no worker: ", StatusText(state_)));
    const auto until = std::min({limits.deadline, limit, now + WorkLimits::kPoll});
    const bool up = lock.WaitUntil(changed_, until, [&]() UOPD_REQUIRES(mu_) {
      return process_ != nullptr && process_.get() != failed;
    });
    if (up) return process_;
  }
}

absl::Status ForkServer::AwaitUp(const WorkLimits& limits) { return Up(limits, nullptr).status(); }

absl::StatusOr<SpawnedWorker> ForkServer::Spawn(const WorkerSetup& setup,
                                                const WorkLimits& limits) {
  const RequestHead head{Request::kSpawn, 0};
  std::string request(reinterpret_cast<const char*>(&head), sizeof head);
  request += setup.Encode();
  if (request.size() > kMaxRequest) return absl::InvalidArgumentError("worker setup is too large");
  SpawnedWorker out;
  for (;;) {
    UOPD_ASSIGN(out.parent, Up(limits, out.parent.get()));
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return absl::ResourceExhaustedError(Cat("socketpair: ", std::strerror(errno)));
    }
    out.socket.Reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    auto reply = out.parent->Ask(std::as_bytes(std::span(request)), theirs.get(), out.pidfd);
    if (absl::IsUnavailable(reply.status())) continue;  // another process takes its place
    UOPD_TRY(reply.status());
    if (reply->error != 0) {
      return absl::ResourceExhaustedError(Cat("forking a worker: ", std::strerror(reply->error)));
    }
    if (!out.pidfd) return absl::ResourceExhaustedError("no descriptor for a worker");
    out.pid = reply->value;
    return out;
  }
}

absl::StatusOr<int> ForkServer::Reap(const SpawnedWorker& worker, milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  pollfd ended{worker.pidfd.get(), POLLIN, 0};
  int n;
  do {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    n = poll(&ended, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  } while (n < 0 && errno == EINTR);
  if (n == 0) {
    return absl::DeadlineExceededError(Cat("worker (", worker.pid, ") does not end"));
  }
  const RequestHead head{Request::kReap, worker.pid};
  UniqueFd none;
  UOPD_ASSIGN(const Reply reply, worker.parent->Ask(std::as_bytes(std::span(&head, 1)), -1, none));
  if (reply.error != 0) {
    return absl::NotFoundError(Cat("worker (", worker.pid, ") has been reaped"));
  }
  return reply.value;
}

std::string ForkServer::Unready() const {
  MutexLock lock(mu_);
  return StatusText(state_);
}

pid_t ForkServer::pid() const {
  MutexLock lock(mu_);
  return process_ != nullptr ? process_->pid() : -1;
}

uint64_t ForkServer::restarts() const {
  MutexLock lock(mu_);
  return restarts_;
}

}  // namespace uopd::worker
