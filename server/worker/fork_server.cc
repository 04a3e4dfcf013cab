// SPDX-License-Identifier: MIT
#include "server/worker/fork_server.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <map>

#include "core/base/text.h"
#include "server/worker/packet.h"
#include "server/worker/pidfd.h"

namespace uopd::worker {
namespace {

enum class Request : int32_t { kSpawn, kReap };

// A request is this, and for kSpawn the encoded setup and the worker's end of a socket.
struct RequestHead {
  Request request = Request::kSpawn;
  pid_t pid = 0;
};
// `value` is the new process (with its pidfd) or the wait status.
struct Reply {
  int32_t error = 0;  // errno
  int32_t value = 0;
};

constexpr size_t kMaxRequest = 16 << 10;
constexpr size_t kMaxUnclaimed = 4096;

#ifndef UOPD_SANITIZED  // sanitizers have a thread of their own
int CountThreads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Threads:", 0) == 0) return std::stoi(line.substr(8));
  }
  return 1;
}
#endif

// Leaves open 0 (nothing), 1 and 2 (stderr) and `keep`, which becomes 3.
UniqueFd KeepOnly(UniqueFd keep) {
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(2, 1);  // a chatty library shall not write into what a client of the daemon reads
  dup2(keep.get(), 3);
  keep.Release();
  if (close_range(4, UINT_MAX, 0) != 0) {
    for (int fd = 4; fd < 65536; ++fd) close(fd);
  }
  fcntl(3, F_SETFD, FD_CLOEXEC);
  return UniqueFd(3);
}

// The daemon decides when its children end, not a terminal's Ctrl-C or a signal to the whole group.
void IgnoreSignals() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGPIPE}) {
    ::signal(signal, SIG_IGN);
  }
}

void DieWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // it died before the line above
}

// The fork server's side. Single-threaded; never returns.
class Loop {
 public:
  Loop(UniqueFd control, const std::vector<JobHandler>& handlers)
      : control_(std::move(control)), handlers_(handlers) {}

  [[noreturn]] void Run() {
    for (;;) {
      std::array<std::byte, kMaxRequest> data;
      UniqueFd fd;
      const ssize_t n = ReceivePacket(control_.get(), data, fd, 0);
      if (n < static_cast<ssize_t>(sizeof(RequestHead))) _exit(0);  // 0: the daemon is gone
      Collect();
      RequestHead head;
      std::memcpy(&head, data.data(), sizeof head);
      if (head.request == Request::kSpawn) {
        const std::string setup(reinterpret_cast<const char*>(data.data()) + sizeof head,
                                static_cast<size_t>(n) - sizeof head);
        Spawn(setup, std::move(fd));
      } else {
        Reap(head.pid);
      }
    }
  }

 private:
  void Answer(Reply reply, int fd = -1) {
    if (SendPacket(control_.get(), std::as_bytes(std::span(&reply, 1)), fd, 0) < 0) _exit(0);
  }

  // Takes the status of every child that ended, so that one whose supervisor gave up leaves no
  // zombie.
  void Collect() {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended_.size() >= kMaxUnclaimed) ended_.erase(ended_.begin());
      ended_[pid] = status;
    }
  }

  void Spawn(const std::string& encoded, UniqueFd socket) {
    auto setup = WorkerSetup::Decode(encoded);
    if (!setup.ok() || !socket.valid()) return Answer({EINVAL, 0});
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid < 0) return Answer({errno, 0});
    if (pid == 0) {
      DieWith(self);
      _exit(RunWorker(KeepOnly(std::move(socket)), *setup, handlers_));
    }
    ended_.erase(pid);  // of an earlier process with this number
    const UniqueFd pidfd(pidfd_open(pid, 0));
    if (!pidfd.valid()) {
      const int error = errno;
      kill(pid, SIGKILL);
      return Answer({error, 0});
    }
    Answer({0, pid}, pidfd.get());
  }

  void Reap(pid_t pid) {
    const auto it = ended_.find(pid);
    if (it == ended_.end()) return Answer({EAGAIN, 0});
    Answer({0, it->second});
    ended_.erase(it);
  }

  const UniqueFd control_;
  const std::vector<JobHandler>& handlers_;
  std::map<pid_t, int> ended_;  // wait statuses that nobody has asked for yet
};

absl::Status Lost() { return absl::UnavailableError("the fork server of the workers is gone"); }

}  // namespace

absl::StatusOr<std::unique_ptr<ForkServer>> ForkServer::Start(std::vector<JobHandler> handlers) {
#ifndef UOPD_SANITIZED
  if (const int threads = CountThreads(); threads > 1) {
    return absl::FailedPreconditionError(
        Cat("the fork server starts after threads (", threads, ")"));
  }
#endif
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::UnavailableError(Cat("socketpair: ", std::strerror(errno)));
  }
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const pid_t self = getpid();
  const pid_t pid = fork();
  if (pid < 0) return absl::UnavailableError(Cat("fork: ", std::strerror(errno)));
  if (pid == 0) {
    DieWith(self);
    ours.Release();  // closed with all the others
    prctl(PR_SET_NAME, "uopd-forks");
    IgnoreSignals();
    Loop(KeepOnly(std::move(theirs)), handlers).Run();
  }
  return std::unique_ptr<ForkServer>(new ForkServer(pid, std::move(ours)));
}

ForkServer::~ForkServer() {
  {
    MutexLock lock(mu_);
    control_.Reset();
  }
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<SpawnedWorker> ForkServer::Spawn(const WorkerSetup& setup) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return absl::ResourceExhaustedError(Cat("socketpair: ", std::strerror(errno)));
  }
  SpawnedWorker out;
  out.socket.Reset(ends[0]);
  const UniqueFd theirs(ends[1]);
  const RequestHead head{Request::kSpawn, 0};
  std::string request(reinterpret_cast<const char*>(&head), sizeof head);
  request += setup.Encode();
  if (request.size() > kMaxRequest) return absl::InvalidArgumentError("worker setup is too large");
  Reply reply;
  {
    MutexLock lock(mu_);
    const auto data = std::as_bytes(std::span(request));
    if (SendPacket(control_.get(), data, theirs.get(), 0) < 0) return Lost();
    const auto into = std::as_writable_bytes(std::span(&reply, 1));
    if (ReceivePacket(control_.get(), into, out.pidfd, 0) != sizeof reply) return Lost();
  }
  if (reply.error != 0) {
    return absl::ResourceExhaustedError(Cat("forking a worker: ", std::strerror(reply.error)));
  }
  out.pid = reply.value;
  return out;
}

absl::StatusOr<int> ForkServer::Reap(const SpawnedWorker& worker,
                                     std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  pollfd ended{worker.pidfd.get(), POLLIN, 0};
  int n;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    n = poll(&ended, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
  } while (n < 0 && errno == EINTR);
  if (n == 0) {
    return absl::DeadlineExceededError(Cat("worker (", worker.pid, ") does not end"));
  }
  const RequestHead head{Request::kReap, worker.pid};
  Reply reply;
  MutexLock lock(mu_);
  if (SendPacket(control_.get(), std::as_bytes(std::span(&head, 1)), -1, 0) < 0) return Lost();
  UniqueFd none;
  const auto into = std::as_writable_bytes(std::span(&reply, 1));
  if (ReceivePacket(control_.get(), into, none, 0) != sizeof reply) return Lost();
  if (reply.error != 0) {
    return absl::NotFoundError(Cat("worker (", worker.pid, ") has been reaped"));
  }
  return reply.value;
}

}  // namespace uopd::worker
