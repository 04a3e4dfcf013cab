// SPDX-License-Identifier: MIT
#include "server/worker/fork/fork_loop.h"

#include <fcntl.h>
#include <signal.h>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "core/base/pidfd.h"
#include "server/worker/fork/fork_protocol.h"
#include "server/worker/fork/packet.h"
#include "server/worker/fork/stray_signals.h"

namespace uopd::worker {
namespace {

constexpr size_t kMaxUnclaimed = 4096;

// Closes all descriptors but 0 (nothing), 1 and 2 (stderr), and `keep`, which becomes 3.
UniqueFd KeepOnly(UniqueFd keep) {
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(2, 1);  // output of libraries must not reach a client's input
  if (keep.get() != 3) {
    dup2(keep.get(), 3);
  }
  keep.Release();
  if (close_range(4, UINT_MAX, 0) != 0) {
    for (int fd = 4; fd < 65536; ++fd) close(fd);
  }
  fcntl(3, F_SETFD, FD_CLOEXEC);
  return UniqueFd(3);
}

// Only the daemon decides when its children end. A Ctrl-C in a terminal or a signal to the whole
// group does not.
void IgnoreSignals() {
  IgnoreStraySignals();
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU}) {
    ::signal(signal, SIG_IGN);
  }
}

void DieWith(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // the parent ended before the line above
}

class Loop {
 public:
  Loop(UniqueFd control, const std::vector<JobHandler>& handlers)
      : control_(std::move(control)), handlers_(handlers) {}

  [[noreturn]] void Run() {
    Answer({0, kHello});
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

  // Takes the status of every child that ended. So a child whose supervisor gave up leaves no
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
    if (!setup.ok() || !socket) return Answer({EINVAL, 0});
    const pid_t self = getpid();
    const pid_t pid = fork();
    if (pid < 0) return Answer({errno, 0});
    if (pid == 0) {
      DieWith(self);
      _exit(RunWorker(KeepOnly(std::move(socket)), *setup, handlers_));
    }
    ended_.erase(pid);  // forget an earlier process with this number
    const UniqueFd pidfd(pidfd_open(pid, 0));
    if (!pidfd) {
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

bool IsControlSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

void BecomeForkServer(int argc, char** argv, const std::vector<JobHandler>& handlers) {
  if (argc < 2 || std::strcmp(argv[1], kForkServerFlag) != 0) return;
  const pid_t daemon = argc == 3 ? std::atoi(argv[2]) : 0;
  if (daemon <= 0 || !IsControlSocket(kForkServerSocket)) {
    std::fprintf(stderr, "%s: %s is for a daemon that starts its fork server\n", argv[0],
                 kForkServerFlag);
    _exit(2);
  }
  DieWith(daemon);
  prctl(PR_SET_NAME, "uopd-forks");
  IgnoreSignals();
  Loop(KeepOnly(UniqueFd(kForkServerSocket)), handlers).Run();
}

}  // namespace uopd::worker
